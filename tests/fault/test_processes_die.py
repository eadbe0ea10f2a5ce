"""kill -9 and worse, at a real cluster under load; a checker reads back what was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from support.load import Load, check, read_all
from support.ports import free_ports
from support.subscribing import subscribed
from support.unretrieved import leaves_no_exception_behind
from tailrace.testing import Cluster

PARTITIONS = 3
# kafka-python leaves the sockets of refused connects to the garbage collector, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers, two gateways and two coordinators; a broker that dies comes back by itself."""
    arguments = ["--brokers", "3", "--gateways", "2", "--coordinators", "2"]
    with Cluster(port=free_ports(4), arguments=arguments, settings={"offsets.topic.num.partitions": "8"}) as running:
        yield running
        leaves_no_exception_behind(running)


def create(cluster: Cluster, name: str, partitions: int = PARTITIONS, replication_factor: int = 1) -> str:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.create_topics({name: {"num_partitions": partitions, "replication_factor": replication_factor}})
    finally:
        admin.close()
    return name


@pytest.mark.parametrize(
    ("role", "number"),
    [("controller", 0), ("coordinator", 0), ("quota", 0), ("gateway", 1), ("broker", 2), ("broker", 0)],
)
def test_a_killed_service_comes_back_and_nothing_acknowledged_is_lost(cluster: Cluster, role: str, number: int) -> None:
    topic = create(cluster, f"killed-{role}-{number}")
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(300)
        mark = cluster.kill(role, number)
        cluster.wait_for("ready", role, number, since=mark)
        load.wait_for(300)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    leaves_no_exception_behind(cluster)


def test_a_group_goes_on_after_its_coordinator_was_killed(cluster: Cluster) -> None:
    topic = create(cluster, "grouped")
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(200)
    total = len(load.promised.acknowledged)
    options = {"bootstrap_servers": cluster.bootstrap, "group_id": "survivors", "auto_offset_reset": "earliest"}
    consumer = subscribed(topic, enable_auto_commit=False, max_poll_records=50, **options)
    seen: list[tuple[int, int]] = []
    try:
        while len(seen) < total // 2:
            seen += [(r.partition, r.offset) for rows in consumer.poll(timeout_ms=20_000).values() for r in rows]
        consumer.commit()
        for number in (0, 1):
            mark = cluster.kill("coordinator", number)
            cluster.wait_for("ready", "coordinator", number, since=mark)
        while len(seen) < total:
            seen += [(r.partition, r.offset) for rows in consumer.poll(timeout_ms=20_000).values() for r in rows]
        consumer.commit()
    finally:
        consumer.close()
    assert len(set(seen)) == total


def test_kill_9_of_everything_at_once_loses_nothing_acknowledged(cluster: Cluster) -> None:
    topic = create(cluster, "everything")
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(500)
        cluster.kill_all()
        cluster.start()
        load.wait_for(200)
    check(load.promised, read_all(cluster.bootstrap, topic))


def test_kill_9_of_everything_brings_back_nothing_that_was_deleted(cluster: Cluster) -> None:
    topic = create(cluster, "deleted", replication_factor=3)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(300)
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        answers = admin.delete_records(dict.fromkeys(places, -1))
    finally:
        admin.close()
    cluster.kill_all()
    cluster.start()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    try:
        found = consumer.beginning_offsets(places)
    finally:
        consumer.close()
    assert found == {place: answers[place]["low_watermark"] for place in places}
    assert all(start > 0 for start in found.values())


@pytest.mark.parametrize("role", ["controller", "quota"])
def test_producers_and_consumers_go_on_while_a_service_is_paused(cluster: Cluster, role: str) -> None:
    topic = create(cluster, f"paused-{role}")
    consumer = subscribed(topic, bootstrap_servers=cluster.bootstrap, group_id=None, auto_offset_reset="earliest")
    try:
        with Load(cluster.bootstrap, topic) as load:
            load.wait_for(200)
            cluster.pause(role)
            try:
                load.wait_for(2000)
                read = 0
                while read < 1000:
                    read += sum(len(rows) for rows in consumer.poll(timeout_ms=20_000).values())
            finally:
                cluster.resume(role)
        assert load.promised.failed == []
    finally:
        consumer.close()
    check(load.promised, read_all(cluster.bootstrap, topic))

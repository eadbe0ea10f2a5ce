"""Three brokers behind two gateways, and clients whose metadata is out of date: topics made anew, partitions added."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from support.load import Load, check, read_all
from support.ports import free_ports
from support.subscribing import REBALANCE_MS, subscribed
from support.waiting import HUNG_S
from tailrace.testing import Cluster

# kafka-python leaves sockets of closed connections to the garbage collector, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    arguments = ["--brokers", "3", "--gateways", "2"]
    with Cluster(port=free_ports(4), arguments=arguments, settings={"offsets.topic.num.partitions": "4"}) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


def create(admin: KafkaAdminClient, name: str, partitions: int) -> str:
    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})
    return name


def test_a_producer_goes_on_when_its_topic_is_deleted_and_created_anew(
    cluster: Cluster, admin: KafkaAdminClient
) -> None:
    topic = create(admin, "anew", 6)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, retry_backoff_ms=50)
    try:
        for i in range(60):
            producer.send(topic, b"old", partition=i % 6).get(HUNG_S)
        admin.delete_topics([topic])
        create(admin, topic, 6)
        futures = [producer.send(topic, b"%d" % i, partition=i % 6) for i in range(600)]
        assert all(future.get(HUNG_S).offset >= 0 for future in futures)
    finally:
        producer.close()
    found = read_all(cluster.bootstrap, topic)
    assert sorted(value for rows in found.values() for _, value in rows) == list(range(600))


def test_added_partitions_are_found_by_producers_and_a_running_group(cluster: Cluster, admin: KafkaAdminClient) -> None:
    topic = create(admin, "grows", 2)
    options = {"group_id": "grows", "auto_offset_reset": "earliest", "metadata_max_age_ms": 500}
    consumer = subscribed(topic, bootstrap_servers=cluster.bootstrap, **options)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, metadata_max_age_ms=500)
    try:
        seen: set[int] = set()
        producer.send(topic, b"x", partition=0).get(HUNG_S)
        while not seen:
            seen |= {r.partition for rows in consumer.poll(timeout_ms=20_000).values() for r in rows}
        admin.create_partitions({topic: 9})
        while len(seen) < 9:
            producer.send(topic, b"x").get(HUNG_S)
            seen |= {r.partition for rows in consumer.poll(timeout_ms=REBALANCE_MS).values() for r in rows}
    finally:
        producer.close()
        consumer.close()


def test_clients_with_many_partitions_on_all_nodes_lose_nothing_when_a_gateway_dies(
    cluster: Cluster, admin: KafkaAdminClient
) -> None:
    topic = create(admin, "wide", 90)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(500)
        for number in (0, 1):
            mark = cluster.kill("gateway", number)
            load.wait_for(200)
            cluster.wait_for("ready", "gateway", number, since=mark)
        load.wait_for(200)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))

"""Replicas in a real cluster: internal topics grow with it, partitions move, leaders are elected by clients' tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from support.ports import free_ports
from support.waiting import until
from tailrace.testing import Cluster

PARTITIONS, RECORDS = 3, 300
PREFERRED = 0  # the type of election on the wire
# kafka-python leaves the sockets of refused connects to the garbage collector, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
OFFSETS = "__consumer_offsets"


def partitions_of(admin: KafkaAdminClient, topic: str) -> list[dict[str, Any]]:
    (found,) = admin.describe_topics([topic])
    return sorted(found["partitions"], key=lambda row: row["partition_index"])


def all_in_sync(admin: KafkaAdminClient, topic: str, replicas: int) -> bool:
    rows = partitions_of(admin, topic)
    return all(len(row["replica_nodes"]) == replicas == len(row["isr_nodes"]) for row in rows)


def produce(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number in range(RECORDS):
        producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
    producer.flush()
    producer.close()


def read(bootstrap: str, topic: str, group: str | None) -> int:
    """Reads what there is to read for a group, commits it, and returns how much it was."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
    ends = consumer.end_offsets(consumer.assignment())
    count = 0
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        count += sum(len(records) for records in consumer.poll(200).values())
    if group is not None:
        consumer.commit()
    consumer.close()
    return count


def test_a_directory_of_one_broker_reopened_with_three_has_its_offsets_on_all(tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path) as one:
        admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
        admin.create_topics({"t": {"num_partitions": PARTITIONS, "replication_factor": 1}})
        produce(one.bootstrap, "t")
        assert read(one.bootstrap, "t", "g") == RECORDS
        assert all_in_sync(admin, OFFSETS, 1)
        admin.close()
    with Cluster(brokers=3, port=free_ports(3), data_dir=tmp_path) as three:
        admin = KafkaAdminClient(bootstrap_servers=three.bootstrap)
        until(lambda: all_in_sync(admin, OFFSETS, 3), "three replicas of every offsets partition")
        assert all_in_sync(admin, "t", 1)
        assert read(three.bootstrap, "t", "g") == 0
        three.kill("broker", 0)
        assert read(three.bootstrap, "t", None) == RECORDS
        admin.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, port=free_ports(3)) as running:
        yield running


def test_partitions_move_with_their_records_and_leaders_are_elected(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics({"moving": {"num_partitions": PARTITIONS, "replication_factor": 1}})
    produce(cluster.bootstrap, "moving")
    wanted = {TopicPartition("moving", index): [(index + 2) % 3, (index + 1) % 3] for index in range(PARTITIONS)}
    admin.alter_partition_reassignments(wanted)

    def moved() -> bool:
        rows = partitions_of(admin, "moving")
        return [row["replica_nodes"] for row in rows] == list(wanted.values()) and not under_way(admin)

    until(moved, "every partition on its new replicas")
    until(lambda: all_in_sync(admin, "moving", 2), "both replicas in sync")
    admin.elect_leaders(PREFERRED, {"moving": list(range(PARTITIONS))})
    until(lambda: [row["leader_id"] for row in partitions_of(admin, "moving")] == [2, 0, 1], "preferred leaders")
    assert read(cluster.bootstrap, "moving", None) == RECORDS
    admin.close()


def under_way(admin: KafkaAdminClient) -> bool:
    return bool(admin.list_partition_reassignments())

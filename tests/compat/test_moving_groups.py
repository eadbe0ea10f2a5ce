"""Groups of the consumer protocol (KIP-848) move in from Apache Kafka, are joined and deleted here, and move back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from support import kafka_peer
from support.clients import Record, connect
from support.java_tools import missing
from support.waiting import until
from tailrace.cli.daily import app
from tailrace.testing import Cluster

TOPIC, COUNT = "orders", 40
SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}


def run(*arguments: object) -> None:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output


def read_on(bootstrap: str, group: str, protocol: str, count: int) -> list[bytes | None]:
    """Joins the group, reads so many records from where it was, commits after them and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    found: list[bytes | None] = []
    try:
        for _ in range(100 + count):
            if len(found) == count:
                break
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.value())
                consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()
    return found


def values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


class Asked:
    """What a cluster says of its groups."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def types(self) -> dict[str, ConsumerGroupType]:
        """All groups, or none while partitions of their log are still being loaded."""
        listed = self.admin.list_consumer_groups(request_timeout=20).result()
        return {} if listed.errors else {group.group_id: group.type for group in listed.valid}

    def offset(self, group: str) -> int:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0)])
        (answer,) = self.admin.list_consumer_group_offsets([wanted]).values()
        return int(answer.result().topic_partitions[0].offset)

    def delete(self, group: str) -> None:
        self.admin.delete_consumer_groups([group])[group].result()


@contextmanager
def running(peer: kafka_peer.KafkaPeer) -> Iterator[kafka_peer.KafkaPeer]:
    try:
        peer.start()
        yield peer
    finally:
        peer.stop()


def test_they_come_with_their_offsets_and_go_back_as_what_became_of_them(tmp_path: Path) -> None:
    if needed := missing():
        pytest.skip(needed)
    with running(kafka_peer.KafkaPeer(tmp_path / "kafka", SETTINGS)) as kafka:
        client = connect("kafka_python", kafka.bootstrap)
        client.create_topic(TOPIC)
        client.produce(TOPIC, [Record(value, partition=0) for value in values(0, COUNT)])
        client.commit("plain", TOPIC, 7, "")
        client.close()
        for group in ("kept", "joined", "deleted"):
            assert read_on(kafka.bootstrap, group, "consumer", 10) == values(0, 10)

    run("import-kafka", tmp_path / "kafka" / "data", "--data", tmp_path / "tailrace", "--how", "move")
    with pytest.raises(RuntimeError, match=r"No readable meta.properties|meta\.properties"):
        kafka.formatted = True
        kafka.start()  # it would serve empty topics
    with Cluster(data_dir=tmp_path / "tailrace") as cluster:
        asked = Asked(cluster.bootstrap)
        before = dict.fromkeys(("kept", "joined", "deleted"), ConsumerGroupType.CONSUMER)
        before["plain"] = ConsumerGroupType.CLASSIC
        until(lambda: asked.types() == before, "the groups, when all partitions of their log are loaded")
        assert read_on(cluster.bootstrap, "joined", "classic", 5) == values(10, 5)
        assert read_on(cluster.bootstrap, "kept", "consumer", 5) == values(10, 5)
        asked.delete("deleted")
        after = {"kept": ConsumerGroupType.CONSUMER} | dict.fromkeys(("joined", "plain"), ConsumerGroupType.CLASSIC)
        assert asked.types() == after
        assert [asked.offset(group) for group in ("kept", "joined", "plain")] == [15, 15, 7]

    run("export-kafka", tmp_path / "tailrace", tmp_path / "out")
    settings = {**SETTINGS, "log.dirs": str(tmp_path / "out" / "node-0")}
    with running(kafka_peer.KafkaPeer(tmp_path / "back", settings, formatted=True)) as kafka:
        asked = Asked(kafka.bootstrap)
        until(lambda: asked.types() == after, "the groups, when all partitions of their log are loaded")
        assert [asked.offset(group) for group in ("kept", "joined", "plain")] == [15, 15, 7]
        assert read_on(kafka.bootstrap, "kept", "consumer", 5) == values(15, 5)
        assert read_on(kafka.bootstrap, "joined", "consumer", 5) == values(15, 5)  # upgraded by its first member
        assert read_on(kafka.bootstrap, "deleted", "consumer", 5) == values(0, 5)
    log = (tmp_path / "back" / "kafka.log").read_text()
    assert "ERROR" not in log and "IllegalStateException" not in log

"""A cluster for the spark layer with what its tests do around Spark: topics and records by kafka-python."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from support.ports import free_ports
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

# Records of tests are as old as they like: nothing is deleted because of its timestamp.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "6",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "500",  # for a test that asks for retention
}


class Record(NamedTuple):
    """What is produced; partition None leaves the choice to the key."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class SparkCluster(Cluster):
    """A Cluster on neighbouring free ports; a context manager."""

    def __init__(self, brokers: int = 1, settings: Mapping[str, str] | None = None, **more: Any) -> None:
        chosen = {**SETTINGS, **(settings or {})}
        super().__init__(port=free_ports(brokers), brokers=brokers, settings=chosen, **more)

    def create(self, word: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """A new topic with a name that begins with the word."""
        name = f"{word}-{uuid.uuid4().hex[:8]}"
        row = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs or {})}
        self._admin(lambda admin: admin.create_topics({name: row}))
        return name

    def create_exactly(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """A new topic of this name."""
        row = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs or {})}
        self._admin(lambda admin: admin.create_topics({name: row}))

    def delete(self, topic: str) -> None:
        """Deletes a topic; returns when the cluster no longer names it."""
        self._admin(lambda admin: admin.delete_topics([topic]))
        self._admin(lambda admin: until(lambda: topic not in admin.list_topics(), f"{topic} gone"))

    def add_partitions(self, topic: str, total: int) -> None:
        """Raises the number of partitions."""
        self._admin(lambda admin: admin.create_partitions({topic: total}))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Moves the log start offsets."""
        offsets = {TopicPartition(topic, partition): offset for partition, offset in before.items()}
        self._admin(lambda admin: admin.delete_records(offsets))

    def retain_a_day(self, topic: str) -> None:
        """Returns when retention has taken all records of partition 0, which must be older."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "86400000"})
        self._admin(lambda admin: admin.alter_configs([resource]))
        where = TopicPartition(topic, 0)
        with KafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
            end = consumer.end_offsets([where])[where]
            until(lambda: consumer.beginning_offsets([where])[where] == end, f"retention of {topic}")

    def produce(self, topic: str, records: Iterable[Record | bytes], **options: Any) -> int:
        """Sends all with acks=all and waits for the acknowledgements; answers how many."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=5, **options)
        try:
            futures = []
            for each in records:
                record = each if isinstance(each, Record) else Record(each)
                futures.append(
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                )
            producer.flush()
            for future in futures:
                future.get(timeout=HUNG_S)
        finally:
            producer.close()
        return len(futures)

    def read(self, *topics: str, isolation_level: str = "read_uncommitted") -> list[Any]:
        """All records up to the end offsets of now, by partition in order."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level
        )
        try:
            partitions = [
                TopicPartition(topic, number)
                for topic in topics
                for number in sorted(consumer.partitions_for_topic(topic) or ())
            ]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            found: list[Any] = []
            while any(consumer.position(each) < ends[each] for each in partitions):
                found += [record for rows in consumer.poll(timeout_ms=1000).values() for record in rows]
        finally:
            consumer.close()
        return sorted(found, key=lambda record: (record.topic, record.partition, record.offset))

    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The high watermarks."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            ends = consumer.end_offsets([TopicPartition(topic, number) for number in partitions])
        finally:
            consumer.close()
        return {where.partition: offset for where, offset in ends.items()}

    def _admin(self, ask: Any) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            ask(admin)
        finally:
            admin.close()

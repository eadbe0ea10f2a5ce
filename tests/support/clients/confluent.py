"""confluent-kafka (librdkafka) behind the common face."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from support.clients.base import EARLIEST, HEARTBEAT_MS, LATEST, SESSION_TIMEOUT_MS, Client, Member, Record, Refused
from support.waiting import HUNG_S

TIMEOUT_S = HUNG_S
STARTS = {EARLIEST: -2, LATEST: -1}


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the library's errors into codes."""
    try:
        yield
    except KafkaException as error:
        raise Refused(error.args[0].code(), str(error.args[0])) from error


class ConfluentMember(Member):
    """A Consumer on its own thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str, instance_id: str | None) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": assignor,
            "group.protocol": "classic",
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic])
        super().__init__()

    def run(self) -> None:
        """Polls until told to stop."""
        while not self.stopping.is_set():
            message = self.consumer.poll(0.1)
            values = [message.value()] if message is not None and message.error() is None else []
            self.saw([p.partition for p in self.consumer.assignment()], values)
        self.consumer.close()


class ConfluentClient(Client):
    """confluent-kafka."""

    name = "confluent-kafka"
    assignors = frozenset({"range", "roundrobin", "cooperative-sticky"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        pass

    def _only(self, futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        with refusals():
            return future.result(TIMEOUT_S)

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, partitions, replication_factor, config=configs or {})
        self._only(self.admin.create_topics([topic]))

    def delete_topic(self, name: str) -> None:
        self._only(self.admin.delete_topics([name]))

    def list_topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int:
        return len(self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._only(self.admin.create_partitions([NewPartitions(topic, total)]))

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        acks: int | str = "all",
        compression: str | None = None,
        idempotent: bool = False,
        partitioned: bool = True,
    ) -> list[tuple[int, int]]:
        settings = {"bootstrap.servers": self.bootstrap, "acks": acks, "linger.ms": 5}
        settings |= {"enable.idempotence": idempotent, "compression.type": compression or "none"}
        producer = Producer(settings)
        done: dict[int, tuple[int, int]] = {}

        def delivered(number: int, error: Any, message: Any) -> None:
            if error is not None:
                raise Refused(error.code(), str(error))
            done[number] = (message.partition(), -1 if message.offset() is None else message.offset())

        for number, record in enumerate(records):
            more: dict[str, Any] = {"partition": record.partition} if partitioned else {}
            if record.timestamp_ms is not None:
                more["timestamp"] = record.timestamp_ms
            producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers),
                on_delivery=functools.partial(delivered, number),
                **more,
            )
        assert producer.flush(TIMEOUT_S) == 0
        return [done[number] for number in range(len(records))]

    def _reader(self, **settings: Any) -> Consumer:
        return Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False} | settings
        )

    def read(self, topic: str, start: int | str, count: int, partition: int = 0) -> list[Record]:
        consumer = self._reader()
        found: list[Record] = []
        try:
            offset = start if isinstance(start, int) else STARTS[start]
            consumer.assign([TopicPartition(topic, partition, offset)])
            for _ in range(40):
                for message in consumer.consume(count - len(found), timeout=0.5):
                    assert message.error() is None, message.error()
                    found.append(self._record(message))
                if len(found) >= count:
                    break
        finally:
            consumer.close()
        return found

    @staticmethod
    def _record(message: Any) -> Record:
        headers = tuple(message.headers() or ())
        timestamp = message.timestamp()[1]
        return Record(message.value(), message.key(), headers, message.partition(), timestamp, message.offset())

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = self._reader()
        try:
            with refusals():
                (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], TIMEOUT_S)
        finally:
            consumer.close()
        return None if found.offset < 0 else int(found.offset)

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        consumer = self._reader(**{"group.id": group})
        try:
            with refusals():
                consumer.commit(offsets=[TopicPartition(topic, 0, offset, metadata)], asynchronous=False)
        finally:
            consumer.close()

    def committed(self, group: str, topic: str) -> tuple[int, str] | None:
        request = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
        (found,) = self._only(self.admin.list_consumer_group_offsets(request)).topic_partitions
        return None if found.offset < 0 else (found.offset, found.metadata)

    def describe_config(self, kind: str, name: str) -> dict[str, tuple[str | None, int]]:
        resource = ConfigResource(ResourceType[kind.upper()], name)
        rows = self._only(self.admin.describe_configs([resource]))
        return {key: (entry.value, int(entry.source)) for key, entry in rows.items()}

    def alter_topic_config(self, topic: str, configs: dict[str, str]) -> None:
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in configs.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._only(self.admin.incremental_alter_configs([resource]))

    def list_groups(self) -> set[str]:
        with refusals():
            listed = self.admin.list_consumer_groups().result(TIMEOUT_S)
        assert not listed.errors, listed.errors
        return {row.group_id for row in listed.valid}

    def describe_group(self, group: str) -> tuple[str, int]:
        row = self._only(self.admin.describe_consumer_groups([group]))
        return row.state.name.title(), len(row.members)

    def delete_group(self, group: str) -> None:
        """Deletes a group; raises Refused."""
        self._only(self.admin.delete_consumer_groups([group]))

    def delete_records(self, topic: str, before: int) -> None:
        self._only(self.admin.delete_records([TopicPartition(topic, 0, before)]))

    def join(self, group: str, topic: str, assignor: str = "range", instance_id: str | None = None) -> Member:
        return ConfluentMember(self.bootstrap, group, topic, assignor, instance_id)

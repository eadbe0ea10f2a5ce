"""aiokafka behind the common face: its coroutines run on one loop in a thread."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from support.clients.base import EARLIEST, HEARTBEAT_MS, LATEST, SESSION_TIMEOUT_MS, Client, Member, Record, Refused
from support.waiting import HUNG_S

T = TypeVar("T")
TIMEOUT_S = HUNG_S
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def close(self) -> None:
        """Ends the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the library's errors into codes."""
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), repr(error)) from error


def check(rows: Any, position: int = 1) -> None:
    """Raises the first error of an admin answer's (name, error code, …) rows."""
    for row in rows:
        if row[position]:
            raise Refused(row[position], str(row))


class AioKafkaMember(Member):
    """An AIOKafkaConsumer on its own thread and loop."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str, instance_id: str | None) -> None:
        self.settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "group_instance_id": instance_id,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "partition_assignment_strategy": [ASSIGNORS[assignor]],
        }
        self.topic = topic
        super().__init__()

    def run(self) -> None:
        """Polls until told to stop."""
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        async with AIOKafkaConsumer(self.topic, **self.settings) as consumer:
            while not self.stopping.is_set():
                batches = await consumer.getmany(timeout_ms=100)
                values = [record.value for rows in batches.values() for record in rows]
                self.saw([p.partition for p in consumer.assignment()], values)


class AioKafkaClient(Client):
    """aiokafka."""

    name = "aiokafka"
    assignors = frozenset(ASSIGNORS)

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.loop = Loop()
        self.admin = self.loop.run(self._admin())

    async def _admin(self) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def close(self) -> None:
        self.loop.run(self.admin.close())
        self.loop.close()

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, partitions, replication_factor, topic_configs=configs or {})
        check(self.loop.run(self.admin.create_topics([topic])).topic_errors)

    def delete_topic(self, name: str) -> None:
        check(self.loop.run(self.admin.delete_topics([name])).topic_error_codes)

    def list_topics(self) -> set[str]:
        return set(self.loop.run(self.admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        return len(self.loop.run(self.admin.describe_topics([topic]))[0]["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        with refusals():
            check(self.loop.run(self.admin.create_partitions({topic: NewPartitions(total)})).topic_errors)

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
        async def send() -> list[tuple[int, int]]:
            settings = {"acks": acks, "compression_type": compression, "enable_idempotence": idempotent}
            async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=5, **settings) as producer:
                sent = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=record.partition if partitioned else None,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                await producer.flush()
                done = [await future for future in sent]
            return [(-1, -1) if row is None else (row.partition, row.offset) for row in done]

        with refusals():
            return self.loop.run(send())

    def read(self, topic: str, start: int | str, count: int, partition: int = 0) -> list[Record]:
        async def run() -> list[Record]:
            where = TopicPartition(topic, partition)
            found: list[Record] = []
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                consumer.assign([where])
                if start == EARLIEST:
                    await consumer.seek_to_beginning(where)
                elif start == LATEST:
                    await consumer.seek_to_end(where)
                else:
                    consumer.seek(where, int(start))
                for _ in range(40):
                    for rows in (await consumer.getmany(timeout_ms=500)).values():
                        found += [self._record(row) for row in rows]
                    if len(found) >= count:
                        break
            return found

        return self.loop.run(run())

    @staticmethod
    def _record(row: Any) -> Record:
        return Record(row.value, row.key, tuple(row.headers), row.partition, row.timestamp, row.offset)

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        async def run() -> int | None:
            where = TopicPartition(topic, 0)
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                consumer.assign([where])
                found = (await consumer.offsets_for_times({where: timestamp_ms}))[where]
            return None if found is None else int(found.offset)

        return self.loop.run(run())

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        async def run() -> None:
            where = TopicPartition(topic, 0)
            settings = {"bootstrap_servers": self.bootstrap, "group_id": group, "enable_auto_commit": False}
            async with AIOKafkaConsumer(**settings) as consumer:
                consumer.assign([where])
                await consumer.commit({where: OffsetAndMetadata(offset, metadata)})

        with refusals():
            self.loop.run(run())

    def committed(self, group: str, topic: str) -> tuple[int, str] | None:
        where = TopicPartition(topic, 0)
        found = self.loop.run(self.admin.list_consumer_group_offsets(group, partitions=[where])).get(where)
        return None if found is None or found.offset < 0 else (found.offset, found.metadata)

    def describe_config(self, kind: str, name: str) -> dict[str, tuple[str | None, int]]:
        resource = ConfigResource(ConfigResourceType[kind.upper()], name)
        rows: dict[str, tuple[str | None, int]] = {}
        for answer in self.loop.run(self.admin.describe_configs([resource])):
            for code, message, _, _, entries in answer.resources:
                if code:
                    raise Refused(code, message or "")
                rows |= {entry[0]: (entry[1], entry[3]) for entry in entries}
        return rows

    def alter_topic_config(self, topic: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        for answer in self.loop.run(self.admin.alter_configs([resource])):
            check(answer.resources, 0)

    def list_groups(self) -> set[str]:
        return {row[0] for row in self.loop.run(self.admin.list_consumer_groups())}

    def describe_group(self, group: str) -> tuple[str, int]:
        answers = self.loop.run(self.admin.describe_consumer_groups([group]))
        row = answers[0].groups[0]
        if row[0]:
            raise Refused(row[0], str(row))
        return row[2], len(row[5])

    def delete_records(self, topic: str, before: int) -> None:
        with refusals():
            self.loop.run(self.admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=before)}))

    def join(self, group: str, topic: str, assignor: str = "range", instance_id: str | None = None) -> Member:
        return AioKafkaMember(self.bootstrap, group, topic, assignor, instance_id)

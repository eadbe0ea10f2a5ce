"""A topic of JSON records for the worker of tables: its cluster of messages, and tables in memory that can fail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from support.reading import PATIENCE_MS, Clock, Cluster
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.reading.reader import TopicReader
from tailrace.records.record import Record
from tailrace.runtime import logs
from tailrace.tables.batch import Batch, DeadLetter, Plan
from tailrace.tables.fields.field import Decode
from tailrace.tables.fields.json_fields import decode
from tailrace.tables.metrics import TableMetrics
from tailrace.tables.store import CommitConflict, Loaded, MemoryTables, MemoryTopicStore, StoreFailure, TopicStore
from tailrace.tables.worker import TableTopic, TopicWorker
from tailrace.wire import messages as m

T = TypeVar("T")
TOPIC_ID = UUID(int=7)
TABLE = {"tailrace.table": "delta", "tailrace.table.commit.interval.ms": "1000", "retention.ms": "1"}


class JsonCluster(Cluster):
    """Records of each partition by offset, as JSON unless they are bytes."""

    def __init__(self, *values: Sequence[object]) -> None:
        super().__init__(*(len(of_partition) for of_partition in values))
        self.values = values
        self.configs: dict[str, dict[str, str]] = {"t": {**TABLE}}
        self.topic_id = TOPIC_ID
        self.away = False
        self.unready: set[str] = set()  # topics that are in metadata alone
        self.described: list[str] = []  # the topics whose configs were asked for

    async def __call__(self, message: Any, version: int, at: Address | None = None) -> Any:
        if self.away:
            raise Disconnected("away")
        if isinstance(message, m.MetadataRequest) and message.topics is None:
            return self._all_topics()
        if isinstance(message, m.DescribeConfigsRequest):
            return self._describe(message)
        return await super().__call__(message, version, at)

    def _all_topics(self) -> Any:
        topic = m.MetadataResponse.MetadataResponseTopic
        part = topic.MetadataResponsePartition
        rows = [
            topic(
                name=name,
                topic_id=self.topic_id,
                error_code=0,
                is_internal=name.startswith("__"),
                partitions=[part(partition_index=index) for index in range(len(self.ends))],
            )
            for name in self.configs
        ]
        return m.MetadataResponse(topics=rows)

    def _describe(self, message: Any) -> Any:
        self.described += (one.resource_name for one in message.resources)
        result = m.DescribeConfigsResponse.DescribeConfigsResult
        row = result.DescribeConfigsResourceResult
        results = [
            result(
                error_code=self._config_error(one.resource_name),
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                configs=[
                    row(name=name, value=value)
                    for name, value in self.configs[one.resource_name].items()
                    if name in one.configuration_keys
                ],
            )
            for one in message.resources
        ]
        return m.DescribeConfigsResponse(results=results)

    def _config_error(self, topic: str) -> int:
        if topic in self.unready:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return 0 if self.configs[topic] else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def value(self, partition: int, offset: int) -> bytes | None:
        found = self.values[partition][offset]
        return found if isinstance(found, bytes) else json.dumps(found).encode()


class FailingStore:
    """A store that ends its writer before or after one of its calls, as kill -9 would."""

    def __init__(self, store: TopicStore, fail_at: int) -> None:
        """fail_at: 2 n: before the n-th call is done, 2 n + 1: after it."""
        self._store = store
        self._step = -fail_at

    def _run(self, call: Callable[[], T]) -> T:
        self._check()
        found = call()
        self._check()
        return found

    def _check(self) -> None:
        self._step += 1
        if self._step == 1:
            raise StoreFailure("killed")

    def load(self, partitions: Iterable[int]) -> Loaded:
        return self._run(lambda: self._store.load(partitions))

    def append(self, plan: Plan) -> None:
        self._run(lambda: self._store.append(plan))

    def append_letters(self, letters: Sequence[DeadLetter], offsets: Mapping[int, int]) -> None:
        self._run(lambda: self._store.append_letters(letters, offsets))

    def offsets_from(self, partition: int, offset: int) -> set[int]:
        return self._run(lambda: self._store.offsets_from(partition, offset))

    def maintain(self) -> None:
        self._run(self._store.maintain)


async def at_once(call: Callable[[], T]) -> T:
    return call()


def blocking(call: Callable[[], T]) -> Awaitable[T]:
    """In place of a thread."""
    return at_once(call)


def memory_store(tables: MemoryTables, topic_id: UUID = TOPIC_ID) -> MemoryTopicStore:
    return MemoryTopicStore(tables, topic_id)


def plan_of(*positions: tuple[int, int]) -> Plan:
    """A commit of records with one field, by partition and offset."""
    batch = Batch()
    for partition, offset in positions:
        batch.add(partition, Record(offset=offset, timestamp=0, key=None, value=b'{"a": 1}'))
    return batch.plan({}, decode)


def moved_on(store: TopicStore, other: TopicStore, move: Callable[[TopicStore], None]) -> None:
    """A writer that another one has overtaken in partition 1, and that moves to the table's newest version.

    move commits something else. What the writer has of partition 1 is refused all the same.
    """
    store.load(range(2))
    store.append(plan_of((0, 0), (1, 0)))
    store.append_letters([], {0: 1, 1: 1})
    other.load(range(2))
    other.append(plan_of((1, 1), (1, 2)))
    other.append_letters([], {1: 3})
    move(store)
    with pytest.raises(CommitConflict):
        store.append(plan_of((1, 1), (1, 2)))
    with pytest.raises(CommitConflict):
        store.append_letters([], {1: 3})


def commit_partition_0(store: TopicStore) -> None:
    store.append(plan_of((0, 1)))
    store.append_letters([], {0: 2})


def worker(cluster: Cluster, store: TopicStore, *, topic_id: UUID = TOPIC_ID, decode: Decode = decode) -> TopicWorker:
    """One life."""
    clock = Clock()
    topic = TableTopic("t", topic_id, len(cluster.ends), 1000)
    reader = TopicReader(cluster, clock, "t", patience_ms=PATIENCE_MS, committed=True, topic_id=topic_id)
    log = logs.logger("table", 0, named=False)
    metrics = TableMetrics(CollectorRegistry()).of("t")
    return TopicWorker(topic, reader, store, decode, clock, metrics, log, blocking)


async def fill(cluster: Cluster, store: TopicStore, *, topic_id: UUID = TOPIC_ID, decode: Decode = decode) -> None:
    """Up to the end of the topic."""
    await worker(cluster, store, topic_id=topic_id, decode=decode).run(lambda: False, once=True)


def kept(tables: MemoryTables) -> tuple[list[Any], list[Any]]:
    """The positions of all rows and of all dead letters, in order."""
    rows = sorted((one.partition, one.record.offset) for _, one in tables.rows)
    letters = sorted((one.partition, one.record.offset) for _, one in tables.letters)
    return rows, letters

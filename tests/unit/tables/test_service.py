"""The workers of topics: begun when a topic asks, begun anew after a failure, ended with what they have."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from support.reading import Clock
from support.topic_tables import TABLE, FailingStore, JsonCluster, blocking, kept, memory_store
from support.waiting import turns_until
from tailrace.net.client import Disconnected
from tailrace.runtime import logs
from tailrace.tables.fields.decoders import Decoders
from tailrace.tables.fields.field import Decode, SchemaFailure
from tailrace.tables.metrics import TableMetrics
from tailrace.tables.service import MOST_TOPICS, TableService
from tailrace.tables.store import MemoryTables, TopicStore
from tailrace.tables.worker import TableTopic


class TurningClock(Clock):
    """Every sleep is a turn of the loop."""

    async def sleep(self, delay_ms: float) -> None:
        await super().sleep(delay_ms)
        await asyncio.sleep(0)


class Stores:
    """The tables in memory of all topics; the first stores fail at these steps."""

    def __init__(self, *fail_at: int) -> None:
        self.tables = MemoryTables()
        self.fail_at = list(fail_at)
        self.opened: list[str] = []

    def __call__(self, topic: TableTopic) -> TopicStore:
        self.opened.append(topic.name)
        store = memory_store(self.tables, topic.topic_id)
        return FailingStore(store, self.fail_at.pop(0)) if self.fail_at else store


def decode_of(topic: TableTopic) -> Decode:
    return Decoders(lambda: 0.0).of(topic.value_format, topic.value_schema)


def service(cluster: JsonCluster, stores: Stores, registry: CollectorRegistry | None = None) -> TableService:
    metrics = TableMetrics(registry or CollectorRegistry())
    log = logs.logger("table", 0, named=False)
    return TableService(cluster, stores, decode_of, TurningClock(), Random(1), log, metrics, blocking)


async def test_workers_follow_the_topics_and_end_with_what_they_have() -> None:
    """A cluster that is away, a failure, a config that goes and comes, a topic that is made again."""
    cluster, stores, stop = JsonCluster([{"a": 1}, b"no"]), Stores(0, 3), asyncio.Event()
    cluster.away = True
    running = asyncio.create_task(service(cluster, stores).run(stop))
    await asyncio.sleep(0)
    cluster.away = False
    await turns_until(lambda: kept(stores.tables) == ([(0, 0)], [(0, 1)]))
    opened = len(stores.opened)
    cluster.configs = {"t": {**TABLE, "tailrace.table": "none"}}
    for _ in range(100):
        await asyncio.sleep(0)
    cluster.configs, cluster.topic_id = {"t": TABLE}, UUID(int=8)
    await turns_until(lambda: kept(stores.tables) == ([(0, 0)] * 2, [(0, 1)] * 2))
    assert len(stores.opened) == opened + 1 == 4
    stop.set()
    await running


async def test_metrics_count_rows_dead_letters_and_failures_of_a_topic() -> None:
    registry = CollectorRegistry()
    cluster, stores, stop = JsonCluster([{"a": 1}, b"no"]), Stores(0), asyncio.Event()
    running = asyncio.create_task(service(cluster, stores, registry).run(stop))
    of = {"topic": "t"}
    await turns_until(lambda: registry.get_sample_value("tailrace_table_dead_letters_total", of) == 1)
    assert registry.get_sample_value("tailrace_table_rows_total", of) == 1
    assert registry.get_sample_value("tailrace_table_failures_total", of) == 1
    assert (registry.get_sample_value("tailrace_table_lag_seconds", of) or 0) >= 0
    stop.set()
    await running
    assert registry.get_sample_value("tailrace_table_rows_total", of) is None


async def test_one_worker_takes_a_bounded_number_of_topics() -> None:
    cluster, stores, stop = JsonCluster([]), Stores(), asyncio.Event()
    cluster.configs = {f"t{number:03}": TABLE for number in range(MOST_TOPICS + 5)}
    running = asyncio.create_task(service(cluster, stores).run(stop))
    await turns_until(lambda: len(stores.opened) == MOST_TOPICS)
    stop.set()
    await running
    assert stores.opened == sorted(cluster.configs)[:MOST_TOPICS]


async def test_once_brings_the_tables_to_the_ends_of_their_topics_or_says_what_failed() -> None:
    cluster, stores = JsonCluster([{"a": 1}, b"no"]), Stores()
    assert await service(cluster, stores).run_once() == ["t"]
    assert kept(stores.tables) == ([(0, 0)], [(0, 1)])
    cluster.away = True
    with pytest.raises(Disconnected):
        await service(cluster, stores).run_once()


async def test_a_schema_that_is_wrong_makes_no_dead_letters_and_is_asked_for_again() -> None:
    cluster, stores = JsonCluster([b"\x02", b"\x04"]), Stores()
    avro = {**TABLE, "tailrace.table.value.format": "avro"}
    for schema in ("{", ""):
        cluster.configs = {"t": {**avro, "tailrace.table.value.schema": schema}}
        with pytest.raises(SchemaFailure):
            await service(cluster, stores).run_once()
    schema = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
    cluster.configs = {"t": {**avro, "tailrace.table.value.schema": schema}}
    assert await service(cluster, stores).run_once() == ["t"]
    assert [row.fields for _, row in stores.tables.rows] == [{"a": 1}, {"a": 2}] and stores.tables.letters == []

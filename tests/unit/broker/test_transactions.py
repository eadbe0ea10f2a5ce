"""Transactions as consumers see them: Fetch and ListOffsets at both isolation levels (KIP-98)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from support.broker import Running, batch, running
from support.records_field import iterate_all
from support.transactions import data_batch, marker_batch
from tailrace.errors import ErrorCode
from tailrace.records.markers import ABORT, COMMIT
from tailrace.wire.messages import ListOffsetsRequest
from tailrace_broker.handlers.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from tailrace_broker.partition_metrics import PartitionMetrics
from tailrace_broker.transactions.open_transactions import LedTransactions

VERSIONS = [4, 5, 11, 12, 13]


def write(broker: Running, *batches: bytearray) -> None:
    """As a coordinator."""
    partition = broker.broker.topics.led("t", 0)
    answers = partition.append([memoryview(data) for data in batches], 1000, from_client=False)
    assert not any(answer.error_code for answer in answers), answers
    broker.broker.wakeups.appended(partition)


def offsets(row: Any) -> list[int]:
    return [record.offset for record in iterate_all(bytes(row.records or b""))]


def aborted(row: Any) -> list[tuple[int, int]] | None:
    told = row.aborted_transactions
    return None if told is None else [(one.producer_id, one.first_offset) for one in told]


async def ends(broker: Running, timestamp: int, level: int, version: int = 7) -> int:
    topic = ListOffsetsRequest.ListOffsetsTopic
    want = topic.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[topic(name="t", partitions=[want])])
    answer = await broker.client.ask(request, timeout_ms=60_000, version=version)
    (row,) = answer.topics[0].partitions
    assert row.error_code == 0
    return int(row.offset)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_reader_at_read_committed_stops_at_the_first_open_transaction(tmp_path: Path, version: int) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, batch(b"plain"))
        write(broker, data_batch(7), data_batch(8), marker_batch(8, ABORT))
        committed = await broker.fetch(0, 0, version=version, isolation_level=1)
        assert (offsets(committed), aborted(committed)) == ([0], [])
        assert (committed.high_watermark, committed.last_stable_offset) == (4, 1)
        waits = await broker.fetch(0, 1, version=version, isolation_level=1)
        assert (waits.error_code, offsets(waits), aborted(waits)) == (0, [], [])
        everything = await broker.fetch(0, 0, version=version, isolation_level=0)
        assert (offsets(everything), aborted(everything)) == ([0, 1, 2, 3], None)
        assert (everything.high_watermark, everything.last_stable_offset) == (4, 1)
        write(broker, marker_batch(7, COMMIT))
        committed = await broker.fetch(0, 0, version=version, isolation_level=1)
        assert (offsets(committed), aborted(committed)) == ([0, 1, 2, 3, 4], [(8, 2)])
        assert committed.last_stable_offset == 5
        everything = await broker.fetch(0, 0, version=version, isolation_level=0)
        assert (offsets(everything), aborted(everything)) == ([0, 1, 2, 3, 4], None)


@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, 0])
@pytest.mark.parametrize("version", [7, 11])
async def test_at_read_committed_the_log_ends_at_the_last_stable_offset(
    tmp_path: Path, timestamp: int, version: int
) -> None:
    async with running(tmp_path) as broker:
        write(broker, data_batch(7))
        found = [await ends(broker, timestamp, level, version) for level in (0, 1)]
        assert found == ([1, 0] if timestamp == LATEST else [0, -1])
        assert await ends(broker, EARLIEST, 1, version) == 0
        write(broker, marker_batch(7, COMMIT))
        found = [await ends(broker, LATEST, level, version) for level in (0, 1)]
        assert found == [2, 2]


async def test_a_waiting_reader_at_read_committed_gets_the_records_with_their_marker(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        write(broker, data_batch(7))
        waiting = asyncio.create_task(broker.fetch(0, 0, isolation_level=1, max_wait_ms=60_000))
        for offset in (0, 1):
            request = broker.fetch_request(0, offset, isolation_level=0)
            answer = await broker.service.ask(request, timeout_ms=60_000, version=12)
            assert offsets(answer.responses[0].partitions[0]) == [offset]
            write(broker, data_batch(8))
        assert not waiting.done()
        write(broker, marker_batch(7, ABORT))
        row = await waiting
        assert (offsets(row), aborted(row), row.last_stable_offset) == ([0], [(7, 0)], 1)


async def test_clients_need_a_transactional_id_for_transactions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        row = await broker.produce(0, bytes(data_batch(7)))
        assert row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def open_transactions(broker: Running) -> LedTransactions:
    return LedTransactions(broker.broker.topics, broker.broker.config, broker.environment.clock)


async def test_a_transaction_that_nobody_ends_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        write(broker, data_batch(7))  # of 1970
        assert open_transactions(broker).count().with_late_transactions == 1
        write(broker, marker_batch(7, COMMIT))
        assert not open_transactions(broker).count().with_late_transactions


async def test_the_metrics_name_the_partitions_with_open_late_and_hanging_transactions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        write(broker, data_batch(7))
        metrics = PartitionMetrics(CollectorRegistry(), open_transactions(broker).count, lambda: [("t", 0, 1)])
        families = {family.name: family.samples for family in metrics.collect()}
        for name in ("open", "late", "hanging"):
            (sample,) = families[f"tailrace_{name}_transactions"]
            assert (sample.labels, sample.value) == ({"topic": "t", "partition": "0"}, 1)

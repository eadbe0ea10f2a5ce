"""What of a fetch is cold, whose turn it is on the disk, and what becomes of the fetch."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from support.broker import TOPIC_ID, Running, batch, image, running
from support.waiting import HUNG_S, turns_until
from tailrace.errors import ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFile, MemoryFilesystem
from tailrace.log.filesystem.real import RealFile
from tailrace.log.log import Log
from tailrace.log.read import Missing, NeedsPages, NeedsScan, Slice
from tailrace.log.segment.search import position_of
from tailrace.log.segment.segment import Segment
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tailrace.records.record import Record, build
from tailrace_broker.cold_reads.memory import IN_MEMORY
from tailrace_broker.cold_reads.reads import ColdRead, FairQueue

MIB = 1 << 20


def ignore(error: OSError | None) -> None:
    """Nobody asks."""


def job(file: Any, *lengths: int) -> ColdRead:
    return ColdRead([Slice(file, 0, length) for length in lengths], ignore)


def test_a_large_job_takes_turns_with_the_others(file: MemoryFile) -> None:
    turns, large, small = FairQueue(1), job(file, 2 * MIB + 1, 5), job(file, 10)
    turns.add(large)
    turns.add(small)
    seen = []
    while (one := turns.next()) is not None:
        assert turns.next() is None  # there is one place
        piece = one.turn()
        seen.append((one, piece.position, piece.length, turns.ended(one)))
    assert seen == [
        (large, 0, MIB, False),
        (small, 0, 10, True),
        (large, MIB, MIB, False),
        (large, 2 * MIB, 1, False),
        (large, 0, 5, True),
    ]
    assert turns.running == len(turns) == 0


def test_no_more_run_than_there_are_places(file: MemoryFile) -> None:
    turns, jobs = FairQueue(2), [job(file, 1) for _ in range(3)]
    for one in jobs:
        turns.add(one)
    first, second = turns.next(), turns.next()
    assert [first, second, turns.next()] == [jobs[0], jobs[1], None]
    assert len(turns) == 1
    assert second is not None
    second.turn()
    assert turns.ended(second)
    assert turns.next() is jobs[2]


def test_who_goes_away_frees_the_place(file: MemoryFile) -> None:
    turns, running_job, waiting = FairQueue(1), job(file, 3 * MIB), job(file, 1)
    for one in (running_job, waiting):
        turns.add(one)
    assert turns.next() is running_job
    running_job.turn()
    running_job.cancelled = waiting.cancelled = True
    assert len(turns) == 0
    assert turns.ended(running_job)  # although it wanted more
    assert turns.next() is None
    assert turns.running == 0


def test_finding_the_batches_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heads of batches lie on the disk too, and the indexes of a segment that was not read yet."""
    filesystem, data = MemoryFilesystem(), build([Record(value=bytes(30_000))])
    log = Log.open(filesystem, "/logs/t-0", LogConfig(index_interval_bytes=100))
    for _ in range(3):
        log.append([bytearray(data)], 0, 1)
    log.close()
    segment = Segment(filesystem, "/logs/t-0", 0, 100)
    segment.size_bytes = log.segments.active.size_bytes
    monkeypatch.setattr(MemoryFile, "cached", lambda *_: False)
    with pytest.raises(Missing) as missing:
        position_of(segment, 0, IN_MEMORY)
    assert isinstance(missing.value.needs, NeedsScan)  # of its indexes
    monkeypatch.setattr(MemoryFile, "pread_cached", lambda *_: None)
    needs = log.read(0, 70_000, None, True, IN_MEMORY)
    assert isinstance(needs, NeedsPages)
    assert (needs.slice.position, needs.slice.length) == (0, 8192)
    assert len(log.read(0, 35_000)) == len(data)
    # Where it begins is known by now, so all of it is asked for at once.
    needs = log.read(1, 35_000, None, True, IN_MEMORY)
    assert isinstance(needs, NeedsPages)
    assert needs.slice.position == len(data)
    assert needs.slice.length > 30_000


class Disk:
    """No head of a batch and no record is in the page cache before it was warmed; `go` lets that happen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.asked, self.go, self.error = threading.Event(), threading.Event(), error
        self.warm: list[range] = []
        monkeypatch.setattr(RealFile, "cached", lambda file, length, at: self.has(length, at))
        monkeypatch.setattr(RealFile, "pread_cached", lambda file, length, at: self.read(file, length, at))
        monkeypatch.setattr(RealFile, "warm", lambda file, length, at: self.bring(length, at))

    def has(self, length: int, at: int) -> bool:
        return any(at in part and at + length <= part.stop for part in self.warm)

    def read(self, file: RealFile, length: int, at: int) -> bytes | None:
        return file.pread(length, at) if self.has(length, at) else None

    def bring(self, length: int, at: int) -> None:
        self.asked.set()
        self.go.wait(HUNG_S)
        if self.error is not None:
            raise self.error
        self.warm.append(range(at, at + length))


async def filled(broker: Running) -> None:
    await broker.produce(0, *(batch(bytes([n]) * 100_000) for n in range(3)), batch(b"end"))


def followed() -> MetadataImage:
    """Node 1 is to have what node 0 leads, and has nothing yet."""
    partitions = tuple(PartitionImage((0, 1), (0,), 0, 3, 0) for _ in range(2))
    here = BrokerImage(0, 100, UUID(int=1), (), fenced=False)
    topics = {"t": TopicImage("t", TOPIC_ID, partitions)}
    return replace(image(), topics=topics, topic_names={TOPIC_ID: "t"}, brokers={0: here})


def follower_request(broker: Running, offset: int, **fields: Any) -> Any:
    request = broker.fetch_request(0, offset, session_epoch=-1, **fields)
    request.replica_id = 1
    return request


@pytest.mark.parametrize("max_bytes", [1000, 150_000, MIB])
async def test_a_follower_that_catches_up_waits_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    async with running(tmp_path, followed()) as broker:
        await broker.broker.publisher.on_epoch(100)  # it is registered, so it may lead what others follow
        await filled(broker)
        disk = Disk(monkeypatch)
        request = follower_request(broker, 0, max_bytes=max_bytes, partition_max_bytes=max_bytes)
        asked = asyncio.create_task(broker.service.ask(request, timeout_ms=60_000, version=12))
        await asyncio.to_thread(disk.asked.wait, HUNG_S)
        assert (await broker.client.ask(broker.fetch_request(1, 0), timeout_ms=60_000, version=12)).error_code == 0
        assert not asked.done()
        disk.go.set()
        row = (await asked).responses[0].partitions[0]
        assert row.error_code == 0
        assert bytes(100_000) in bytes(row.records)
        assert broker.broker.cold_reads.count >= 1
        assert broker.broker.cold_reads.bytes >= 100_000


async def test_a_disk_that_fails_a_cold_read_goes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = Disk(monkeypatch, OSError(5, "Input/output error"))
        disk.go.set()
        assert (await broker.fetch(0, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(broker.broker.storage.offline) == 1


async def test_a_follower_hears_of_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, followed()) as broker:
        await broker.broker.publisher.on_epoch(100)  # it is registered, so it may lead what others follow
        await filled(broker)
        disk = Disk(monkeypatch, OSError(5, "Input/output error"))
        disk.go.set()
        answer = await broker.service.ask(follower_request(broker, 0), timeout_ms=60_000, version=12)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(broker.broker.storage.offline) == 1


async def test_a_page_cache_that_keeps_nothing_is_waited_for_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = Disk(monkeypatch)
        monkeypatch.setattr(disk, "has", lambda length, at: False)
        disk.go.set()
        assert bytes(100_000) in (await broker.fetch(0, 0)).records
        assert broker.broker.cold_reads.count == 4


@pytest.mark.parametrize("follower", [False, True])
async def test_what_is_waited_for_in_the_end_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follower: bool
) -> None:
    """The event loop waits with it, so it is a few batches, however many bytes are asked for."""
    async with running(tmp_path, followed()) as broker:
        await broker.broker.publisher.on_epoch(100)
        for index in (0, 1):
            await broker.produce(index, *(batch(bytes([n]) * 10_000) for n in range(40)))
        disk = Disk(monkeypatch)
        monkeypatch.setattr(disk, "has", lambda length, at: False)
        disk.go.set()
        request = follower_request(broker, 0) if follower else broker.fetch_request(0, 0, session_epoch=-1)
        request.replica_id = 1 if follower else -1
        request.min_bytes, request.max_wait_ms = 300_000, 2**31 - 1
        answer = await broker.service.ask(request, timeout_ms=60_000, version=12)
        (row,) = answer.responses[0].partitions
        assert (row.error_code, 10_000 < len(row.records) <= 65_536) == (0, True)


async def test_a_client_that_leaves_frees_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk, cold = Disk(monkeypatch), broker.broker.cold_reads
        asked = asyncio.create_task(broker.fetch(0, 0))
        await asyncio.to_thread(disk.asked.wait, HUNG_S)
        assert cold.turns.running == 1
        await broker.client.close()
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await asked
        disk.go.set()
        await turns_until(lambda: cold.turns.running == 0)
        assert len(cold.turns) == 0

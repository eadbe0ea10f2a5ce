"""flush.messages with group commit: one fsync at a time off the loop; nothing counts before it."""

from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.broker import TOPIC_ID, batch, image, running, topic
from support.log_dirs import Disks, metadata
from support.waiting import HUNG_S, turns_until
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.real import RealFile
from tailrace.log.flush import Flush
from tailrace_broker.partitions import flusher

SYNCED = image(**{"flush.messages": "1"})


class Disk:
    """Stands in for fsync: waits until it may go on, counts, or fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        self.go = threading.Event()
        self.error: OSError | None = None
        self.began = asyncio.Event()
        loop, really = asyncio.get_running_loop(), Flush.run

        def run(flush: Flush) -> None:
            self.runs += 1
            loop.call_soon_threadsafe(self.began.set)
            assert self.go.wait(HUNG_S)
            if self.error is not None:
                raise self.error
            really(flush)

        patch.setattr(Flush, "run", run)


def partition(node: Any) -> Any:
    return node.broker.topics.by_name[b"t"].partitions[0]


@pytest.mark.parametrize("acks", [1, -1])
async def test_what_arrives_during_a_flush_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    async with running(tmp_path, SYNCED) as node:
        disk = Disk(monkeypatch)
        first = asyncio.create_task(node.produce(0, batch(b"first"), acks=acks, timeout_ms=20_000))
        await disk.began.wait()
        others = [
            asyncio.create_task(node.produce(0, batch(b"%d" % n), acks=acks, timeout_ms=20_000)) for n in range(20)
        ]
        answer = await node.service.ask(node.fetch_request(0, 0), timeout_ms=60_000, version=12)  # the loop is free
        fetched = answer.responses[0].partitions[0]
        assert (fetched.high_watermark, fetched.records) == (0, b"")
        assert not first.done()
        disk.go.set()
        answers = await asyncio.gather(first, *others)
        assert [answer.error_code for answer in answers] == [0] * 21
        assert [answer.base_offset for answer in answers] == list(range(21))
        assert disk.runs <= 3
        assert partition(node).log.recovery_point == partition(node).high_watermark == 21


async def test_after_a_failed_flush_nothing_is_promised_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, SYNCED) as node:
        disk = Disk(monkeypatch)
        disk.error = OSError(errno.EIO, "the disk is broken")
        disk.go.set()
        assert (await node.produce(0, batch(b"a"), timeout_ms=20_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.error = None  # the kernel would say yes now, to pages it has forgotten
        assert (await node.produce(0, batch(b"b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition(node).high_watermark == 0


@pytest.mark.parametrize("acks", [1, -1])
async def test_what_a_killed_broker_had_not_flushed_is_not_acknowledged_before_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    """Its producer sends it again: the batch is there, but no disk has it."""
    two, sent = Disks(), batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0)
    log = two.dirs[0].create("t", 0, TOPIC_ID, LogConfig())
    (appended,) = log.append([memoryview(bytearray(sent))], 3, 1_700_000_000_000)
    assert not appended.error_code
    for each in two.disks:
        each.kill()
    async with running(tmp_path, metadata(configs={"flush.messages": "1"}), log_dirs=two.open()) as node:
        disk = Disk(monkeypatch)
        waiting = asyncio.create_task(node.produce(0, sent, acks=acks, timeout_ms=20_000))
        await disk.began.wait()
        await node.service.ask(node.fetch_request(1, 0), timeout_ms=60_000, version=12)
        assert not waiting.done()
        disk.go.set()
        answer = await waiting
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert partition(node).log.recovery_point == 1


async def test_a_request_may_time_out_before_its_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, SYNCED) as node:
        disk = Disk(monkeypatch)
        answer = await node.produce(0, batch(b"a"), timeout_ms=20)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        disk.go.set()
        assert (await node.produce(0, batch(b"b"), timeout_ms=20_000)).error_code == 0


async def test_an_append_right_at_a_flushs_end_is_flushed_as_well(tmp_path: Path) -> None:
    """A request between a flush's last look and its end must not be given the task that ends."""
    async with running(tmp_path, SYNCED) as node:
        await node.produce(0, batch(b"a"))
        mine, flusher = partition(node), node.broker.wakeups.flusher
        appended: list[Any] = []

        def append() -> None:
            appended.extend(mine.append([memoryview(bytearray(batch(b"b")))], node.environment.clock.wall_ms()))
            flusher.request(mine)

        task = flusher.request(mine)  # nothing is owed: it ends at its first turn, and the append comes right after
        asyncio.get_running_loop().call_soon(append)
        await task
        assert appended[0].error_code == 0
        await turns_until(lambda: not len(flusher))
        assert mine.log.recovery_point == mine.log.log_end_offset == 2


async def test_there_is_never_a_second_flush_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found under load: housekeeping's flush and flush.messages' wrote the same epoch file, and one rename failed."""
    told = image(**{"flush.messages": "1", "flush.ms": "0"})
    async with running(tmp_path, told) as node:
        disk = Disk(monkeypatch)
        waiting = asyncio.create_task(node.produce(0, batch(b"a"), timeout_ms=20_000))
        await disk.began.wait()
        await node.broker.wakeups.flusher.upkeep(partition(node))
        assert disk.runs == 1
        disk.go.set()
        assert (await waiting).error_code == 0


async def test_an_append_during_upkeep_is_flushed_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = image(**{"flush.messages": "2", "flush.ms": "0"})
    async with running(tmp_path, told) as node:
        assert (await node.produce(0, batch(b"a"))).error_code == 0
        disk = Disk(monkeypatch)
        upkeep = asyncio.create_task(node.broker.wakeups.flusher.upkeep(partition(node)))
        await disk.began.wait()
        waiting = asyncio.create_task(node.produce(0, batch(b"b", b"c"), timeout_ms=20_000))
        await turns_until(lambda: partition(node).syncing)
        disk.go.set()
        await upkeep
        answer = await waiting
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert partition(node).log.recovery_point == 3


async def test_files_that_must_be_closed_are_synced_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = topic("t", TOPIC_ID, *[0] * 8)
    async with running(tmp_path, replace(image(), topics={"t": many}, topic_names={TOPIC_ID: "t"})) as node:
        open_files = node.broker.storage.dirs[0].guard.open_files
        open_files.limit = 4
        began, go, sync = threading.Event(), threading.Event(), RealFile.sync

        def slow(file: RealFile) -> None:
            if threading.current_thread().name.startswith("flush"):
                began.set()
                assert go.wait(HUNG_S)
            sync(file)

        monkeypatch.setattr(RealFile, "sync", slow)
        for number in range(7):
            assert (await node.produce(number, batch(b"%d" % number))).error_code == 0
        assert await asyncio.to_thread(began.wait, HUNG_S)
        assert (await node.produce(0, batch(b"more"))).error_code == 0
        assert (open_files.freed, len(open_files)) == (0, 6)
        go.set()
        await turns_until(lambda: open_files.freed == 1)
        monkeypatch.undo()
        for number in range(7):
            assert (await node.fetch(number, 0)).error_code == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_flush_that_finds_no_descriptor_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The disk is fine: nothing goes offline, and nothing is acknowledged before it is there."""
    monkeypatch.setattr(flusher, "_REST_MS", 1)
    async with running(tmp_path, SYNCED) as node:
        disk = Disk(monkeypatch)
        disk.error = OSError(number, "no descriptor")
        asked = asyncio.create_task(node.produce(0, batch(b"a"), acks=-1, timeout_ms=20_000))
        disk.go.set()
        await turns_until(lambda: disk.runs > 3)
        assert not asked.done() and partition(node).log.recovery_point == 0
        disk.error = None
        assert (await asked).error_code == 0 and partition(node).log.recovery_point == 1
        assert all(log_dir.failure is None for log_dir in node.broker.storage.configured)


async def test_flush_ms_is_kept_though_the_wall_clock_is_set_back(tmp_path: Path) -> None:
    hour_ms = 3_600_000
    async with running(tmp_path, image(**{"flush.ms": str(hour_ms)})) as node:
        clock = ManualClock()
        keeper = flusher.Flusher(clock, lambda partition, error: None)
        for count in (1, 2):
            await node.produce(0, batch(b"v"))
            clock.advance(hour_ms)
            await keeper.upkeep(partition(node))
            assert partition(node).log.recovery_point == count
            clock.jump(-10 * hour_ms)
        await keeper.close()

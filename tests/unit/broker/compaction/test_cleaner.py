"""The broker's side of compaction: which log is next, what a failure does, and the cleaner process itself."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog
import uvloop

from support.broker import TOPIC_ID, image, running, topic
from support.log_dirs import Disks
from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.log.compaction.job import GONE, STORAGE, CleaningFailed, decode_outcome, encode_failure
from tailrace.log.compaction.rewrite import Outcome, RewriteJob, RewriteLimits
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.log.read import Slice
from tailrace.log.retention import delete_retention
from tailrace.net.backoff import Backoff
from tailrace.records.batch import split
from tailrace.records.record import Record, build, iterate
from tailrace.wire.messages import DescribeCleanerRequest
from tailrace_broker.app import cleaner_of
from tailrace_broker.broker import Broker
from tailrace_broker.compaction.cleaner import DEATHS_PER_LOG, Cleaner
from tailrace_broker.compaction.cleaner_process import Pace, clean, next_free_at, usable_bytes_of
from tailrace_broker.compaction.worker import ProcessWorker, WorkerDied, Workers, open_pace

NOW = 1_700_000_000_000
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "message.timestamp.after.max.ms": "9223372036854775807",
}


class HereWorker:
    """Does passes at once, in this process; `before` may raise or change the world first."""

    def __init__(self) -> None:
        self.directories: list[str] = []
        self.before: Callable[[RewriteJob], None] = lambda job: None
        self.closed = False
        self.starts = 0
        self.usable_bytes = 2**62

    async def run(self, job: RewriteJob) -> Outcome:
        self.directories.append(job.directory.rpartition("-")[2])
        self.before(job)
        return decode_outcome(clean(RealFilesystem(), job, lambda done_bytes: None, lambda: self.usable_bytes))

    async def close(self) -> None:
        self.closed = True


class Waits:
    """A backoff that only counts."""

    def __init__(self) -> None:
        self.waits = 0

    async def wait(self) -> None:
        self.waits += 1

    def reset(self) -> None:
        self.waits = 0


@pytest.fixture
def pace() -> Iterator[int]:
    with open_pace() as file:
        yield file


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Those that were started."""
    started, start = list[Process](), asyncio.create_subprocess_exec

    async def noted(*command: Any, **options: Any) -> Process:
        started.append(await start(*command, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return started


@asynccontextmanager
async def cleaning(
    path: Path, worker: Any, partitions: int = 3, configs: Any = None, **settings: Any
) -> AsyncIterator[Any]:
    """A broker that leads all of a compacted topic, and its cleaner."""
    whole = topic("t", TOPIC_ID, *[0] * partitions)
    metadata = image(**CONFIGS | (configs or {}))
    metadata = replace(metadata, topics={"t": whole}, topic_names={TOPIC_ID: "t"})
    backoff: Any = Waits()
    opened = iter([worker]) if not isinstance(worker, list) else iter(worker)
    workers = Workers(lambda: next(opened))
    clock: Any = _Clock()

    def cleaner(broker: Broker) -> Cleaner:
        return cleaner_of(broker, clock, backoff, workers, structlog.get_logger())

    async with running(path, metadata, cleaner_of=cleaner, **settings) as broker:
        node: Any = broker
        node.workers = workers
        node.backoff = backoff
        node.partitions = list(node.broker.topics.by_name[b"t"].partitions.values())
        yield node


class _Clock:
    """Time that stands still."""

    def wall_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> float:
        return 0.0

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        raise NotImplementedError

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(0)


def fill(partition: Any, count: int, keys: int = 5, size: int = 100, number: int = 0) -> Log:
    """count records, a closed segment, and one more record that makes the log dirty."""
    log: Log = partition.log
    for at in range(count):
        key = b"k%d" % (at % keys)
        log.append([build([Record(timestamp=NOW, key=key, value=b"%d-%d" % (number, at) + bytes(size))])], 0, NOW)
    log.roll()
    log.append([build([Record(timestamp=NOW, key=b"active", value=b"v")])], 0, NOW)
    partition.high_watermark = log.log_end_offset
    return log


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read: Slice = log.read(offset, 1 << 20)
        rows = [record.offset for batch in split(read.read()) for record in iterate(batch)]
        found += rows
        offset = rows[-1] + 1
    return found


async def test_the_filthiest_log_is_first_and_all_get_their_turn(tmp_path: Path) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker) as node:
        for partition in node.partitions:
            fill(partition, 20)
        assert await node.cleaner.round()
        worker.directories.clear()
        for partition, count in zip(node.partitions, (2, 30, 9), strict=True):
            fill(partition, count, number=1)
        assert await node.cleaner.round()
        assert worker.directories == ["1", "2", "0"]
        assert node.cleaner.stats.passes == 6 and node.cleaner.stats.bytes_written > 0
        assert 0 < node.cleaner.stats.dirtiest_ratio <= 1
        assert not await node.cleaner.round()
        assert [node.cleaner.dirty_ratio(partition) for partition in node.partitions] == [0, 0, 0]


async def test_what_is_cleaned_is_in_the_checkpoint_and_survives_a_restart(tmp_path: Path) -> None:
    async with cleaning(tmp_path, HereWorker(), 1) as node:
        log = fill(node.partitions[0], 50)
        await node.cleaner.round()
        assert offsets(log) == [45, 46, 47, 48, 49, 50] and log.cleaned_offset == 50
        checkpoint = Path(node.broker.storage.dirs[0].path) / "cleaner-offset-checkpoint"
        assert checkpoint.read_text() == "0\n1\nt 0 50\n"
    async with cleaning(tmp_path, HereWorker(), 1) as node:
        assert offsets(node.partitions[0].log) == [45, 46, 47, 48, 49, 50]


async def test_a_damaged_log_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 2) as node:
        bad, good = (fill(partition, 30) for partition in node.partitions)
        with (Path(bad.directory) / ("0" * 20 + ".log")).open("r+b") as file:
            file.seek(200)
            file.write(b"\xff\xff\xff")
        await node.cleaner.round()
        assert good.cleaned_offset == 30 and bad.cleaned_offset == 0
        assert list(node.cleaner.stats.uncleanable) == [(TOPIC_ID, 0)]
        assert node.cleaner.uncleanable_bytes() == bad.size_bytes
        worker.directories.clear()
        await node.cleaner.round()
        assert worker.directories == []


async def test_a_cleaner_that_dies_is_started_again_and_gives_a_log_up_after_some_deaths(tmp_path: Path) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 2) as node:
        for partition in node.partitions:
            fill(partition, 30)

        def die(job: RewriteJob) -> None:
            if job.directory.endswith("-0"):
                raise WorkerDied("killed")

        worker.before = die
        for _ in range(DEATHS_PER_LOG):
            assert not node.cleaner.stats.uncleanable
            await node.cleaner.round()
        assert list(node.cleaner.stats.uncleanable) == [(TOPIC_ID, 0)]
        assert node.partitions[1].log.cleaned_offset == 30


async def test_a_cleaner_that_cannot_be_started_is_no_fault_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: int
) -> None:
    monkeypatch.setattr("tailrace_broker.compaction.worker.COMMAND", ("/no/such/program",))
    async with cleaning(tmp_path, ProcessWorker(pace), 1) as node:
        fill(node.partitions[0], 30)
        for tries in range(DEATHS_PER_LOG + 1):
            assert not await node.cleaner.round()
            assert not node.cleaner.stats.uncleanable
            assert node.backoff.waits == tries + 1


WAITS_AT_MOST = {"max.compaction.lag.ms": "1000"}  # so that a look at a log reads from it


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("when", ["before the round", "in the middle of it"])
async def test_a_log_that_cannot_be_looked_at_is_passed_over_and_not_set_aside(
    tmp_path: Path, when: str, number: int
) -> None:
    worker, two = HereWorker(), Disks()
    refused = OSError(number, "the disk, or this process")
    async with cleaning(tmp_path, worker, 2, WAITS_AT_MOST, log_dirs=two.dirs) as node:
        fill(node.partitions[0], 60)
        fill(node.partitions[1], 30)

        def gone(job: RewriteJob) -> None:
            two.disks[1].fail_next("read", refused)
            raise CleaningFailed(GONE, "retention was faster")

        worker.before = gone
        if when == "before the round":
            two.disks[1].fail_next("read", refused)
        assert not await node.cleaner.round()
        assert worker.directories == ["0"]
        assert not node.cleaner.stats.uncleanable
        failed = two.dirs[1].failure
        assert failed is refused if number == errno.EIO else failed is None


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
async def test_how_dirty_the_replicas_are_is_told_though_one_cannot_be_looked_at(tmp_path: Path, number: int) -> None:
    two = Disks()
    async with cleaning(tmp_path, HereWorker(), 2, WAITS_AT_MOST, log_dirs=two.dirs) as node:
        for partition in node.partitions:
            fill(partition, 30)
        two.disks[1].fail_next("read", OSError(number, "the disk, or this process"))
        answer = await node.service.ask(DescribeCleanerRequest(topic_id=TOPIC_ID), timeout_ms=60_000)
        assert [row.partition_index for row in answer.partitions] == [0]


async def test_files_that_are_gone_are_no_fault_of_the_log(tmp_path: Path) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 1) as node:
        log = fill(node.partitions[0], 30)

        def gone(job: RewriteJob) -> None:
            raise CleaningFailed(GONE, "retention was faster")

        worker.before = gone
        assert not await node.cleaner.round()
        assert not node.cleaner.stats.uncleanable and node.cleaner.stats.failures == 1
        worker.before = lambda job: None
        assert await node.cleaner.round() and log.cleaned_offset == 30


@pytest.mark.parametrize("gone", ["by retention", "by hand"])
async def test_only_files_that_retention_did_not_take_are_warned_of(tmp_path: Path, gone: str) -> None:
    worker = HereWorker()
    configs = {"cleanup.policy": "compact,delete", "retention.ms": "1"}
    async with cleaning(tmp_path, worker, 1, configs=configs) as node:
        log = fill(node.partitions[0], 30)

        def take(job: RewriteJob) -> None:
            if gone == "by retention":
                delete_retention(log, NOW + 1000, log.log_end_offset)
            else:
                os.remove(Path(log.directory) / ("0" * 20 + ".log"))

        worker.before = take
        with structlog.testing.capture_logs() as lines:
            assert not await node.cleaner.round()
        warned = [line["why"] for line in lines if line["log_level"] == "warning"]
        assert len(warned) == node.cleaner.stats.failures == (gone == "by hand"), lines
        assert not node.cleaner.stats.uncleanable


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC])
async def test_a_broken_disk_that_a_pass_finds_takes_its_log_dir_offline_and_a_full_one_is_tried_again(
    tmp_path: Path, number: int
) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 1) as node:
        fill(node.partitions[0], 30)

        def refuse(job: RewriteJob) -> None:
            decode_outcome(encode_failure(STORAGE, "the disk refused", number))

        worker.before = refuse
        assert not await node.cleaner.round()
        (log_dir,) = node.broker.storage.configured
        if number == errno.ENOSPC:
            assert log_dir.failure is None
        else:
            assert log_dir.failure is not None and log_dir.failure.errno == number


def cut_or_delete(node: Any, log: Log, change: str) -> None:
    if change == "truncated":
        log.truncate_to(10)
    else:
        node.follower.move(topics={}, topic_names={})


@pytest.mark.parametrize("change", ["truncated", "deleted"])
async def test_a_broken_disk_is_not_forgotten_though_the_log_changed_under_the_pass(
    tmp_path: Path, change: str
) -> None:
    """The kernel tells of what it could not write back once."""
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 1) as node:
        log = fill(node.partitions[0], 30)

        def meanwhile(job: RewriteJob) -> None:
            cut_or_delete(node, log, change)
            decode_outcome(encode_failure(STORAGE, "the disk refused", errno.EIO))

        worker.before = meanwhile
        assert not await node.cleaner.round()
        (log_dir,) = node.broker.storage.configured
        assert log_dir.failure is not None and not node.cleaner.stats.uncleanable


async def test_a_pass_leaves_the_reserve_of_the_internal_topics_alone(tmp_path: Path) -> None:
    worker = HereWorker()
    settings = {"space": lambda path: (10**9, 10**8), "log_dir_pressure_refuse_bytes": "12345"}
    async with cleaning(tmp_path, worker, 1, **settings) as node:
        log = fill(node.partitions[0], 30)
        worker.usable_bytes = 15_430  # a quarter above the mark, less one
        assert not await node.cleaner.round() and log.cleaned_offset == 0
        assert not [name for name in os.listdir(log.directory) if name.endswith(".cleaned")]
        assert all(log_dir.failure is None for log_dir in node.broker.storage.configured)
        assert not node.cleaner.stats.uncleanable and node.cleaner.stats.failures == 1
        worker.usable_bytes = 15_431
        assert await node.cleaner.round() and log.cleaned_offset == 30


def test_what_is_free_on_a_disk_is_known_to_the_process(tmp_path: Path) -> None:
    assert 0 < usable_bytes_of(str(tmp_path)) <= shutil.disk_usage(tmp_path).total


@pytest.mark.parametrize("change", ["truncated", "deleted", "appended"])
async def test_what_happens_to_the_log_during_a_pass_wins(tmp_path: Path, change: str) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 1) as node:
        log = fill(node.partitions[0], 30)

        def meanwhile(job: RewriteJob) -> None:
            if change != "appended":
                cut_or_delete(node, log, change)
            else:
                log.append([build([Record(timestamp=NOW, key=b"k0", value=b"late")])], 0, NOW)

        worker.before = meanwhile
        await node.cleaner.round()
        if change == "truncated":
            assert offsets(log) == list(range(10)) and log.cleaned_offset <= 10
        elif change == "deleted":
            assert not node.cleaner.stats.uncleanable
        else:
            assert offsets(log) == [25, 26, 27, 28, 29, 30, 31]


class MeetingWorker(HereWorker):
    """Begins its pass only when as many of its kind are at work as shall be."""

    def __init__(self, meeting: asyncio.Barrier) -> None:
        super().__init__()
        self.meeting = meeting
        self.limits: list[RewriteLimits] = []

    async def run(self, job: RewriteJob) -> Outcome:
        self.limits.append(job.limits)
        await self.meeting.wait()
        return await super().run(job)


async def test_as_many_logs_are_compacted_side_by_side_as_log_cleaner_threads_says(tmp_path: Path) -> None:
    meeting = asyncio.Barrier(2)
    workers = [MeetingWorker(meeting), MeetingWorker(meeting)]
    async with cleaning(tmp_path, workers, 4, log_cleaner_threads="2") as node:
        logs = [fill(partition, 30) for partition in node.partitions]
        assert await node.cleaner.round()
        assert [log.cleaned_offset for log in logs] == [30] * 4
        assert [len(worker.directories) for worker in workers] == [2, 2]
        assert len({place for worker in workers for place in worker.directories}) == 4
        whole = RewriteLimits.of(134_217_728, 0.9, 524_288, 0)  # the buffers are shared out
        assert workers[0].limits[0][:3] == (whole.max_keys // 2, whole.step_bytes // 2, 0.0)
        checkpoint = Path(node.broker.storage.dirs[0].path) / "cleaner-offset-checkpoint"
        assert sorted(checkpoint.read_text().splitlines()[2:]) == [f"t {n} 30" for n in range(4)]


async def test_fewer_log_cleaner_threads_close_the_workers_that_are_too_many(tmp_path: Path) -> None:
    workers = [HereWorker(), HereWorker()]
    async with cleaning(tmp_path, workers, 1, log_cleaner_threads="2") as node:
        await node.cleaner.round()
        workers[1].starts = 3
        static = node.broker.config.static
        node.broker.config.current = static.with_dynamic({"log.cleaner.threads": "1"}, {})
        await node.cleaner.round()
        assert [worker.closed for worker in workers] == [False, True]
        assert node.workers.starts == 3
        node.broker.config.current = static.with_dynamic({"log.cleaner.threads": "0"}, {})
        fill(node.partitions[0], 30)
        assert not await node.cleaner.round()
        assert workers[0].closed and node.partitions[0].log.cleaned_offset == 0


async def test_log_cleaner_enable_off_cleans_nothing(tmp_path: Path) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 1, log_cleaner_enable="false") as node:
        fill(node.partitions[0], 30)
        assert not await node.cleaner.round() and worker.directories == []


async def test_another_service_is_told_how_dirty_a_replica_is(tmp_path: Path) -> None:
    async with cleaning(tmp_path, HereWorker(), 2) as node:
        fill(node.partitions[0], 50)
        request = DescribeCleanerRequest(topic_id=TOPIC_ID)
        (row,) = (await node.service.ask(request, timeout_ms=60_000)).partitions
        assert (row.partition_index, row.dirty_ratio, row.cleaned_offset, row.last_cleaned_ms) == (0, 1.0, 0, -1)
        await node.cleaner.round()
        (row,) = (await node.service.ask(request, timeout_ms=60_000)).partitions
        assert (row.dirty_ratio, row.cleaned_offset, row.uncleanable) == (0.0, 50, None)
        assert row.last_cleaned_ms == NOW
        unknown = await node.service.ask(DescribeCleanerRequest(topic_id=UUID(int=99)), timeout_ms=60_000)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_pace_spreads_bytes_over_seconds_and_saves_up_one_at_most() -> None:
    assert next_free_at(10.0, 500, 1000, now=10.0) == 10.5
    assert next_free_at(10.5, 500, 1000, now=10.0) == 11.0
    assert next_free_at(11.0, 1500, 1000, now=100.0) == 100.5


def test_cleaners_keep_one_pace_together(pace: int) -> None:
    first, second = Pace(pace), Pace(pace)
    assert first.rest_seconds(10**12, 0, 10.0) == 0
    assert first.rest_seconds(1000, 1000, 10.0) == 0  # the second that is saved up
    assert second.rest_seconds(500, 1000, 10.0) == 0.5
    assert first.rest_seconds(500, 1000, 10.0) == 1.0
    assert second.rest_seconds(0, 1000, 12.0) == 0


def test_limits_come_from_kafkas_settings() -> None:
    assert RewriteLimits.of(160_000, 0.5, 100_000, 1.5) == RewriteLimits(500, 100_000, 1.5)
    assert RewriteLimits.of(1, 0.9, 1, 1.7e308) == RewriteLimits(1, 4096, 0.0)


# -- the real process -------------------------------------------------------------------------------------------------


async def test_the_process_cleans_at_the_lowest_priority(tmp_path: Path, pace: int) -> None:
    worker = ProcessWorker(pace)
    async with cleaning(tmp_path, worker, 2) as node:
        assert not await node.cleaner.round() and worker.starts == 0
        logs = [fill(partition, 50) for partition in node.partitions]
        assert await node.cleaner.round()
        assert worker.starts == 1 and [offsets(log) for log in logs] == [[45, 46, 47, 48, 49, 50]] * 2
        assert worker.pid is not None and os.getpriority(os.PRIO_PROCESS, worker.pid) == 19
        # Which counts within one session only, where Linux shares the processor out between sessions first.
        assert os.getsid(worker.pid) == os.getsid(0)
        assert os.getpgid(worker.pid) != os.getpgid(0)  # what a terminal signals
        await worker.close()
        assert worker.pid is None


async def test_a_process_killed_in_the_middle_of_a_pass_costs_nothing_but_the_pass(tmp_path: Path, pace: int) -> None:
    worker = ProcessWorker(pace)
    # Slow enough that the pass is going on when the signal comes, whenever that is.
    async with cleaning(tmp_path, worker, 1, log_cleaner_io_max_bytes_per_second="1") as node:
        log = fill(node.partitions[0], 500, size=2000)
        before = offsets(log)
        working = asyncio.create_task(node.cleaner.round())
        while worker.pid is None:  # noqa: ASYNC110  some turns of the loop lead there
            await asyncio.sleep(0)
        os.kill(worker.pid, signal.SIGKILL)
        assert not await working
        assert offsets(log) == before and node.backoff.waits == 1
        node.broker.config.current = Config.load("broker", overrides={"node.id": "0"})
        assert await node.cleaner.round()
        assert worker.starts == 2 and offsets(log) == [495, 496, 497, 498, 499, 500]
        await worker.close()


@pytest.mark.parametrize("when", ["between two passes", "just now"])
def test_a_process_whose_pipe_is_closed_already_costs_the_broker_nothing(
    tmp_path: Path, pace: int, processes: list[Process], when: str
) -> None:
    """On the event loop of brokers, which knows of the pipe's end before it knows of the process's."""

    async def clean() -> None:
        worker = ProcessWorker(pace)
        async with cleaning(tmp_path, worker, 1) as node:
            fill(node.partitions[0], 30)
            assert await node.cleaner.round()
            (process,) = processes
            assert process.stdin is not None
            process.stdin.transport.abort()
            while not closed(process.stdin.transport):  # noqa: ASYNC110
                await asyncio.sleep(0)
            if when == "just now":
                process.stdin.is_closing = lambda: False  # type: ignore[method-assign]
            log = fill(node.partitions[0], 30, number=1)
            assert await node.cleaner.round() is (when == "between two passes")
            assert await node.cleaner.round() is (when == "just now")
            assert log.cleaned_offset == 61 and worker.starts == 2
            await worker.close()

    def closed(transport: asyncio.WriteTransport) -> bool:
        try:
            transport.write(b"")
        except RuntimeError:
            return True
        return False

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(clean())


async def test_two_processes_work_side_by_side_and_what_both_deaths_cost_is_done_again(
    tmp_path: Path, pace: int
) -> None:
    workers = [ProcessWorker(pace), ProcessWorker(pace)]
    slow = {"log_cleaner_io_max_bytes_per_second": "1", "log_cleaner_threads": "2"}
    async with cleaning(tmp_path, workers, 2, **slow) as node:
        logs = [fill(partition, 500, size=2000) for partition in node.partitions]
        working = asyncio.create_task(node.cleaner.round())
        while workers[0].pid is None or workers[1].pid is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for worker in workers:
            os.kill(worker.pid or 0, signal.SIGKILL)
        assert not await working
        overrides = {"node.id": "0", "log.cleaner.threads": "2"}
        node.broker.config.current = Config.load("broker", overrides=overrides)
        assert await node.cleaner.round()
        assert [offsets(log) for log in logs] == [[495, 496, 497, 498, 499, 500]] * 2
        assert node.workers.starts == 4
        await node.workers.close()


async def test_the_process_ends_with_its_broker_in_the_middle_of_a_pass(
    tmp_path: Path, pace: int, processes: list[Process]
) -> None:
    worker = ProcessWorker(pace)
    async with cleaning(tmp_path, worker, 1, log_cleaner_io_max_bytes_per_second="1") as node:
        fill(node.partitions[0], 500, size=2000)
        working = asyncio.create_task(node.cleaner.round())
        while worker.pid is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        (process,) = processes
        assert process.stdin is not None
        process.stdin.close()  # what the kernel does when the broker is gone
        assert await process.wait() == 0
        await working


async def test_run_ends_with_the_worker_closed(tmp_path: Path) -> None:
    worker = HereWorker()
    async with cleaning(tmp_path, worker, 1) as node:
        fill(node.partitions[0], 30)
        began = asyncio.Event()
        worker.before = lambda job: began.set()
        running_cleaner = asyncio.create_task(node.cleaner.run())
        await began.wait()
        running_cleaner.cancel()
        await asyncio.wait([running_cleaner])
        assert worker.closed


def test_the_backoff_of_the_app_grows_to_a_minute() -> None:
    backoff = Backoff(_Clock(), random.Random(0), first_ms=1000, most_ms=60_000)
    waits = [backoff.next_ms() for _ in range(10)]
    assert waits[0] < 1300 and 48_000 <= waits[-1] <= 72_000

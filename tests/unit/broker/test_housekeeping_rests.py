"""Housekeeping looks at what changed: partitions nobody writes to cost it nothing; and at how they are now."""

from __future__ import annotations

import errno
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.broker import Running, batch, image, running
from support.log_dirs import Disks, metadata
from support.waiting import turns_until
from tailrace.clock import Clock, ManualClock
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.retention import delete_retention
from tailrace.net.background import in_background
from tailrace.wire.messages import DescribeLogDirsRequest
from tailrace_broker import app
from tailrace_broker.housekeeping import Housekeeping
from tailrace_broker.partitions.flusher import Flusher

NOW_MS = 1_700_000_000_000


class Counts:
    """How often the work of a turn was done; the work is done all the same."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.looked_at: list[int] = []
        self.checkpoints = 0
        upkeep, write = Flusher.upkeep, LogDir.write_checkpoints

        async def counted(flusher: Flusher, partition: Any) -> None:
            self.looked_at.append(partition.index)
            await upkeep(flusher, partition)

        def counted_write(log_dir: LogDir) -> None:
            self.checkpoints += 1
            write(log_dir)

        patch.setattr(Flusher, "upkeep", counted)
        patch.setattr(LogDir, "write_checkpoints", counted_write)

    def take(self) -> tuple[list[int], int]:
        taken = sorted(self.looked_at), self.checkpoints
        self.looked_at, self.checkpoints = [], 0
        return taken


def housekeeping(node: Running, clock: Clock | None = None) -> Housekeeping:
    return app.open_housekeeping(node.broker, replace(node.environment, clock=clock or node.environment.clock))


def content(node: Any, name: str) -> str:
    (log_dir,) = node.broker.storage.dirs
    return Path(log_dir.path, name).read_text(encoding="ascii")


async def turn(keeper: Housekeeping) -> None:
    await keeper.flush()
    await keeper.checkpoint()


async def test_a_turn_looks_at_what_was_written_since_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as node:
        counts, keeper = Counts(monkeypatch), housekeeping(node)
        await node.produce(0, batch(b"v"))
        await node.produce(1, batch(b"v"))
        await turn(keeper)
        assert counts.take() == ([0, 1], 1)
        await turn(keeper)
        assert counts.take() == ([], 0)
        await node.produce(1, batch(b"v"))
        await turn(keeper)
        assert counts.take() == ([1], 1)


async def test_what_waits_for_flush_ms_is_looked_at_until_it_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, image(**{"flush.ms": "3600000"})) as node:
        counts, keeper = Counts(monkeypatch), housekeeping(node)
        await node.produce(0, batch(b"v"))
        await turn(keeper)  # the first hour counts from 1970
        counts.take()
        await node.produce(0, batch(b"v"))
        await turn(keeper)
        await turn(keeper)
        assert counts.take() == ([0, 0], 1)
        node.broker.topics.by_name[b"t"].partitions[0].log.flush()
        await turn(keeper)
        await turn(keeper)
        assert counts.take()[0] == [0]


async def test_a_recovery_point_that_a_flush_raised_is_written_though_nothing_was_appended_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, image(**{"flush.ms": "0"})) as node:
        counts, keeper = Counts(monkeypatch), housekeeping(node)
        await node.produce(0, batch(b"v"))
        await keeper.checkpoint()
        counts.take()
        await keeper.flush()
        await keeper.checkpoint()
        assert counts.take() == ([0], 1)
        assert "\nt 0 1\n" in content(node, "recovery-point-offset-checkpoint")


async def test_a_checkpoint_that_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as node:
        keeper = housekeeping(node)
        await node.produce(0, batch(b"v"))
        write = LogDir.write_checkpoints

        def fails(log_dir: LogDir) -> Any:
            raise OSError("no")

        monkeypatch.setattr(LogDir, "write_checkpoints", fails)
        with pytest.raises(OSError, match="no"):
            await keeper.checkpoint()
        monkeypatch.setattr(LogDir, "write_checkpoints", write)
        await keeper.checkpoint()
        assert "\nt 0 1\n" in content(node, "replication-offset-checkpoint")


async def test_retention_goes_as_far_as_the_high_watermark_is_now_and_the_checkpoint_still_gets_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, image(**{"retention.bytes": "0"})) as node:
        keeper = housekeeping(node)
        await node.produce(0, batch(b"v"))
        await keeper.retain()
        assert node.broker.topics.by_name[b"t"].partitions[0].log.log_start_offset == 1
        await keeper.checkpoint()
        assert "\nt 0 1\n" in content(node, "replication-offset-checkpoint")


async def test_a_log_whose_files_somebody_took_away_does_not_keep_the_others_from_retention_and_flushes(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, image(**{"retention.bytes": "0", "flush.ms": "0"})) as node:
        keeper, (log_dir,) = housekeeping(node), node.broker.storage.dirs
        logs = []
        for index in (0, 1):
            await node.produce(index, batch(b"v"))
            logs.append(node.broker.topics.by_name[b"t"].partitions[index].log)
            logs[index].roll()
            await node.produce(index, batch(b"v"))
        shutil.rmtree(Path(log_dir.path, "t-0"))
        with pytest.raises(FileNotFoundError):
            await keeper.flush()
        assert logs[1].recovery_point == 2
        with pytest.raises(FileNotFoundError):
            await keeper.retain()
        assert logs[1].log_start_offset == 2
        assert log_dir.failure is None


async def test_a_disk_that_fails_as_retention_looks_at_it_does_not_keep_the_other_from_it(tmp_path: Path) -> None:
    two, everything = Disks(), metadata(2, configs={"retention.bytes": "0"})
    async with running(tmp_path, everything, log_dirs=two.dirs) as node:
        for index in (0, 1):
            await node.produce(index, batch(b"v"))
    two.dirs = two.open()
    async with running(tmp_path, everything, log_dirs=two.dirs) as node:
        two.disks[0].fail_next("list", OSError(errno.EIO, "broken"))
        with pytest.raises(OSError, match="broken"):
            await housekeeping(node).retain()
        assert two.dirs[0].failure is not None
        assert node.broker.topics.by_name[b"t"].partitions[1].log.log_start_offset == 1


async def test_logs_that_nobody_uses_are_kept_and_measured_without_being_opened(tmp_path: Path) -> None:
    disk = MemoryFilesystem()

    def log_dirs() -> list[LogDir]:
        return [LogDir.open(disk, "/logs", node_id=0, cluster_id="c", now_ms=0)]

    def sizes(answer: Any) -> list[int]:
        return [part.partition_size for topic in answer.results[0].topics for part in topic.partitions]

    describe, never = DescribeLogDirsRequest(topics=None), image(**{"retention.ms": "-1", "retention.bytes": "10"})
    async with running(tmp_path, never, log_dirs=log_dirs()) as node:
        await node.produce(0, batch(b"kept"))
        await node.produce(1, batch(b"much"))
        node.broker.topics.by_name[b"t"].partitions[1].log.roll()
        await node.produce(1, batch(b"behind"))
        before = sizes(await node.client.ask(describe, timeout_ms=60_000))
    async with running(tmp_path, never, log_dirs=log_dirs()) as node:
        assert sizes(await node.client.ask(describe, timeout_ms=60_000)) == before
        (log_dir,), keeper = node.broker.storage.dirs, housekeeping(node)
        assert log_dir.open_logs() == {}
        await keeper.retain()
        assert list(log_dir.open_logs()) == [("t", 1)]  # the only one that has too much
        opens = disk.opens
        for _ in range(3):
            await keeper.retain()
            await node.client.ask(describe, timeout_ms=60_000)
        assert disk.opens == opens
        assert list(log_dir.open_logs()) == [("t", 1)]


async def test_retention_reads_how_old_segments_are_in_a_thread(tmp_path: Path) -> None:
    """A start knows nothing of closed segments: their indexes are on the disk."""
    disk = MemoryFilesystem()

    def log_dirs() -> list[LogDir]:
        return [LogDir.open(disk, "/logs", node_id=0, cluster_id="c", now_ms=0)]

    asked = image(**{"retention.ms": "1000", "segment.bytes": str(1 << 20)})
    async with running(tmp_path, asked, log_dirs=log_dirs()) as node:
        log = node.broker.topics.led("t", 0).log
        for number in range(3):
            await node.produce(0, batch(b"%d" % number, timestamp=NOW_MS + number))
            log.roll()
    disk.kill()
    async with running(tmp_path, asked, log_dirs=log_dirs()) as node:
        partition = node.broker.topics.led("t", 0)
        assert [segment.indexes is not None for segment in partition.log.segments] == [False, False, False, True]
        loop, elsewhere = threading.get_ident(), list[int]()

        def heard() -> None:
            assert threading.get_ident() != loop
            elsewhere.append(1)

        disk.drop_caches()
        disk.on_disk_read = heard
        await housekeeping(node, ManualClock(NOW_MS + 1001)).retain()
        disk.on_disk_read = lambda: None
        assert elsewhere
        assert partition.log.log_start_offset == 1


async def test_what_was_deleted_goes_by_a_timer_and_does_not_wait_for_retention(tmp_path: Path) -> None:
    """A deleted topic, deleted segments, segments that were cut off: all of it after file.delete.delay.ms."""
    two, clock, delayed = Disks(), ManualClock(), metadata(2, configs={"file.delete.delay.ms": "0"})

    def left() -> list[str]:
        return [path for disk in two.disks for path in disk.files() if ".deleted" in path or "-delete/" in path]

    def all_gone() -> bool:
        clock.advance(10)
        return not left()

    async with running(tmp_path, delayed, log_dirs=two.dirs) as node:
        for index in (0, 1):
            await node.produce(index, batch(b"x" * 100))
            node.broker.topics.by_name[b"t"].partitions[index].log.roll()
            await node.produce(index, batch(b"y"))
        cut = node.broker.topics.by_name[b"t"].partitions[0].log
        cut.truncate_to(0)
        gone = node.broker.topics.by_name[b"t"].partitions[1].log
        gone.advance_log_start_offset(1)
        delete_retention(gone, node.environment.clock.wall_ms(), 2)
        assert {path.split("/")[2] for path in left()} == {"t-0", "t-1"}
        async with in_background(housekeeping(node, clock).run()):
            await turns_until(all_gone)
            node.follower.move(topics={}, topic_names={})
            assert {path.split("/")[2].partition(".")[0] for path in left()} == {"t-0", "t-1"}
            await turns_until(all_gone)


async def test_what_cannot_be_removed_for_want_of_a_descriptor_is_removed_later(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(2), log_dirs=two.dirs) as node:
        for index in (0, 1):
            await node.produce(index, batch(b"x"))
        node.follower.move(topics={}, topic_names={})
        clock = ManualClock(node.environment.clock.wall_ms() + 1_000_000)
        two.disks[0].fail_all(OSError(errno.EMFILE, "too many open files"), ["list"])
        with pytest.raises(OSError, match="too many open files"):
            await housekeeping(node, clock).remove_files()
        assert ["-delete/" in "".join(disk.files()) for disk in two.disks] == [True, False]
        two.disks[0].heal()
        clock.advance(1_000)
        await housekeeping(node, clock).remove_files()
        assert "-delete/" not in "".join(two.disks[0].files())
        assert two.dirs[0].failure is None

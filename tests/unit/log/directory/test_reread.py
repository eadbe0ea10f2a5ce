"""After a failed write-back Linux goes on showing pages that no disk has: a start on the same boot is not taken in."""

from __future__ import annotations

import errno
import random
from uuid import UUID

import pytest

from support.logs import NOW, append, values_of, with_settings
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.guard import DirectoryOffline, Guard
from tailrace.log.filesystem.memory import MemoryFilesystem, Stopped
from tailrace.log.log import Log

ROOT, MARK, FIRST = "/logs", "/logs/.disk-failed", "/logs/t-0/00000000000000000000.log"
EIO = OSError(errno.EIO, "the disk is broken")
TOPIC_ID = UUID(int=5)


def started(filesystem: MemoryFilesystem) -> LogDir:
    """A process starts, as a broker opens the directory; the one before it was killed."""
    filesystem.kill()
    return LogDir.open(Guard(filesystem), ROOT, node_id=0, cluster_id="c", now_ms=NOW)


def opened(logs: LogDir, segment_bytes: int = 1 << 20) -> Log:
    return logs.create("t", 0, TOPIC_ID, with_settings(segment_bytes=segment_bytes))


def flushed(filesystem: MemoryFilesystem, *values: bytes, segment_bytes: int = 1 << 20) -> tuple[LogDir, Log]:
    """A log whose values are on the disk, as its checkpoint says."""
    logs = started(filesystem)
    log = opened(logs, segment_bytes)
    for value in values:
        append(log, value)
    log.flush()
    logs.checkpoint()
    return logs, log


def failed(filesystem: MemoryFilesystem) -> None:
    """One value is on the disk, another one's fsync has failed, and the page cache shows both."""
    _, log = flushed(filesystem, b"kept")
    append(log, b"lost")
    filesystem.fail_next("sync", EIO)
    with pytest.raises(OSError, match="broken"):
        log.flush()
    assert filesystem.content(FIRST).count(b"lost") == 1


def after_a_power_cut(filesystem: MemoryFilesystem) -> list[bytes | None]:
    filesystem.crash(random.Random(1))
    return values_of(opened(started(filesystem)))


def test_a_start_after_a_failed_fsync_believes_only_what_the_disk_has() -> None:
    filesystem = MemoryFilesystem()
    failed(filesystem)
    logs = started(filesystem)
    assert (logs.last_shutdown.failure, logs.last_shutdown.reread_bytes > 0) == (str(EIO), True)
    log = opened(logs)
    assert values_of(log) == [b"kept"]
    append(log, b"new")
    log.flush()
    assert after_a_power_cut(filesystem) == [b"kept", b"new"]


def test_without_the_mark_it_would_serve_what_is_gone_with_the_next_power_cut() -> None:
    filesystem = MemoryFilesystem()
    failed(filesystem)
    filesystem.remove(MARK)
    log = opened(started(filesystem))
    log.flush()
    assert values_of(log) == [b"kept", b"lost"]
    assert after_a_power_cut(filesystem) == [b"kept"]


def test_the_mark_goes_with_the_start_that_has_heeded_it_and_not_before() -> None:
    filesystem = MemoryFilesystem()
    failed(filesystem)
    for calls in range(100):
        filesystem.kill()
        filesystem.stop_after(calls)
        try:
            LogDir.open(Guard(filesystem), ROOT, node_id=0, cluster_id="c", now_ms=NOW)
            break
        except Stopped:
            assert MARK in filesystem.files() or b"lost" not in filesystem.content(FIRST)
    assert calls > 5 and MARK not in filesystem.files()
    logs = started(filesystem)
    assert not logs.last_shutdown.failure
    assert values_of(opened(logs)) == [b"kept"]


def test_a_directory_that_failed_is_not_taken_for_a_cleanly_closed_one() -> None:
    filesystem = MemoryFilesystem()
    logs, _ = flushed(filesystem, b"kept")
    filesystem.fail_next("sync_directory", EIO, after=4)  # behind the marker of a clean shutdown
    with pytest.raises(OSError, match="broken"):
        logs.close(broker_epoch=7)
    assert f"{ROOT}/.kafka_cleanshutdown" in filesystem.files()
    again = started(filesystem)
    assert (again.last_shutdown.clean, again.last_shutdown.broker_epoch) == (False, -1)
    assert values_of(opened(again)) == [b"kept"]


def test_only_what_lies_above_the_recovery_point_is_read_again() -> None:
    filesystem = MemoryFilesystem()
    logs, log = flushed(filesystem, *[b"%03d" % number * 20 for number in range(40)], segment_bytes=1000)
    closed, size = log.segments.active.base_offset, log.segments.active.size_bytes
    logs.fail(EIO)
    assert closed > 20
    again = started(filesystem)
    assert size <= again.last_shutdown.reread_bytes < 2 * size
    assert opened(again).log_end_offset == 40


def test_a_copy_on_its_way_to_another_directory_is_read_again() -> None:
    filesystem = MemoryFilesystem()
    logs, _ = flushed(filesystem)
    copy = logs.futures.open("u", 0, TOPIC_ID, with_settings(), NOW)
    append(copy, b"lost")
    filesystem.fail_next("sync", EIO)
    with pytest.raises(OSError, match="broken"):
        copy.flush()
    assert started(filesystem).futures.open("u", 0, TOPIC_ID, with_settings(), NOW).log_end_offset == 0


def test_what_is_still_to_be_written_is_not_lost_by_reading_again() -> None:
    filesystem = MemoryFilesystem()
    logs, log = flushed(filesystem, b"kept")
    append(log, b"dirty")
    logs.fail(EIO)
    log = opened(started(filesystem))
    assert values_of(log) == [b"kept", b"dirty"]
    log.flush()
    assert after_a_power_cut(filesystem) == [b"kept", b"dirty"]


def test_a_failure_that_nobody_saw_before_the_kill_is_told_to_the_first_flush() -> None:
    filesystem = MemoryFilesystem()
    _, log = flushed(filesystem, b"kept")
    append(log, b"lost")
    filesystem.fail_to_write_back(FIRST)
    logs = started(filesystem)
    log = opened(logs)
    assert (values_of(log), log.recovery_point) == ([b"kept", b"lost"], 1)
    with pytest.raises(OSError, match="written back"):
        log.flush()
    with pytest.raises(DirectoryOffline):
        logs.checkpoint()
    assert log.recovery_point == 1
    log = opened(started(filesystem))
    assert values_of(log) == [b"kept"]
    append(log, b"new")
    log.flush()
    assert after_a_power_cut(filesystem) == [b"kept", b"new"]


def test_a_failure_that_nobody_saw_is_told_to_a_recovery_that_cuts() -> None:
    filesystem = MemoryFilesystem()
    _, log = flushed(filesystem, b"kept")
    append(log, b"lost")
    filesystem.fail_to_write_back(FIRST)
    filesystem.content(FIRST).extend(b"torn")
    logs = started(filesystem)
    with pytest.raises(OSError, match="written back"):
        opened(logs)
    assert MARK in filesystem.files()
    assert values_of(opened(started(filesystem))) == [b"kept"]


@pytest.mark.parametrize("operation", ["open", "create"])
def test_a_disk_that_takes_no_mark_is_told_of(operation: str) -> None:
    filesystem = MemoryFilesystem()
    logs, _ = flushed(filesystem)
    filesystem.fail_next(operation, OSError(errno.EROFS, "read-only"))
    logs.fail(EIO)
    assert (str(logs.failure), "read-only" in str(logs.guard.unmarked)) == (str(EIO), True)
    assert MARK not in filesystem.files()
    filesystem.heal()
    other = started(filesystem)
    filesystem.torn = lambda length: 0
    filesystem.fail_next("write", OSError(errno.ENOSPC, "full"))
    other.fail(EIO)
    assert other.guard.unmarked is None and MARK in filesystem.files()
    assert started(filesystem).last_shutdown.failure == "unknown"

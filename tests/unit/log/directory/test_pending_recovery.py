"""Long unflushed tails are found at the start and checked by a Recovery, which another thread may run."""

from __future__ import annotations

from uuid import UUID

import pytest

from support.logs import NOW, RecoveredLogs, append, values_of, with_settings
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.checkpoints import RECOVERY_POINT, parse_offsets
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.recovery.loader import RecoveryStopped
from tailrace.log.segment.segment import LOG_SUFFIX

SETTINGS = with_settings(segment_bytes=2000)
TOPIC_ID = UUID(int=5)
LONG, SHORT = ("long", 0), ("short", 0)


def open_dir(filesystem: MemoryFilesystem) -> LogDir:
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)


def crashed() -> MemoryFilesystem:
    """Two logs after a kill -9: 60 batches that no flush had covered, and one."""
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log, short = (logs.create(*key, TOPIC_ID, SETTINGS) for key in (LONG, SHORT))
    for number in range(60):
        append(log, b"%d" % number)
    append(short, b"one")
    filesystem.kill()
    return filesystem


def measured(filesystem: MemoryFilesystem) -> LogDir:
    logs = open_dir(filesystem)
    logs.measure_tails(at_once_bytes=1000)
    return logs


def test_only_long_tails_have_to_wait() -> None:
    filesystem = crashed()
    logs = measured(filesystem)
    tail = logs.tails.waiting[LONG]
    names = [name for name in filesystem.list("/logs/long-0") if name.endswith(LOG_SUFFIX)]
    assert list(logs.tails.waiting) == [LONG]
    assert logs.tails.remaining_segments == tail.segments == len(names) > 1
    assert tail.size_bytes == sum(filesystem.open(f"/logs/long-0/{name}").stat().size_bytes for name in names)
    with pytest.raises(BlockingIOError, match="being recovered"):
        logs.log(*LONG)
    short = logs.log(*SHORT)
    assert short is not None and values_of(short) == [b"one"]


def test_a_recovery_opens_what_the_first_use_would_have() -> None:
    filesystem, heard = crashed(), []
    logs = measured(filesystem)
    logs.findings.subscribe(RecoveredLogs(lambda key, _: heard.append((key, logs.remaining_logs_to_recover))))
    recovery = logs.begin_recovery(*LONG, SETTINGS)
    assert logs.remaining_logs_to_recover == 2 and not logs.tails.waiting
    recovery.run()
    assert recovery.progress.segments_left == 1
    with pytest.raises(BlockingIOError):
        logs.create(*LONG, TOPIC_ID, SETTINGS)  # nobody else has the log before it was handed over
    later = with_settings(segment_bytes=3000)
    logs.set_configs({"long": later})
    logs.finish_recovery(recovery)
    log = logs.log(*LONG)
    assert log is not None and values_of(log) == [b"%d" % number for number in range(60)]
    assert log.config == later
    assert heard == [(LONG, 1)] and logs.tails.remaining_segments == 0
    append(log, b"more")
    logs.close()
    assert open_dir(filesystem).last_shutdown.clean


def test_what_only_needs_a_look_behind_the_recovery_point_is_no_long_tail() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create(*LONG, TOPIC_ID, SETTINGS)
    for number in range(60):
        append(log, b"%d" % number)
    log.roll()
    log.flush()
    logs.checkpoint()
    filesystem.kill()
    assert not measured(filesystem).tails.waiting


def test_after_a_clean_stop_nothing_is_measured() -> None:
    filesystem = crashed()
    open_dir(filesystem).close()
    assert not measured(filesystem).tails.waiting


def test_a_recovery_that_was_stopped_does_no_harm_and_leaves_no_marker() -> None:
    filesystem = crashed()
    logs = measured(filesystem)
    recovery = logs.begin_recovery(*LONG, SETTINGS)
    logs.tails.give_up()
    with pytest.raises(RecoveryStopped):
        recovery.run()
    logs.close(7)
    logs = open_dir(filesystem)
    assert not logs.last_shutdown.clean
    log = logs.log(*LONG)
    assert log is not None and len(values_of(log)) == 60


def test_logs_that_nobody_wanted_are_checked_by_a_clean_stop() -> None:
    filesystem = crashed()
    measured(filesystem).close(7)
    logs = measured(filesystem)
    assert logs.last_shutdown.clean and logs.last_shutdown.broker_epoch == 7
    log = logs.log(*LONG)
    assert log is not None and len(values_of(log)) == 60


def test_a_partition_deleted_under_its_recovery_goes_when_the_thread_has_left_it() -> None:
    filesystem = crashed()
    logs = measured(filesystem)
    recovery = logs.begin_recovery(*LONG, SETTINGS)
    logs.delete(*LONG, NOW)
    assert "long-0" in filesystem.list("/logs") and LONG in logs.tails
    with pytest.raises(RecoveryStopped):
        recovery.run()
    logs.finish_recovery(recovery)
    assert "long-0" not in filesystem.list("/logs") and LONG not in logs.tails
    assert values_of(logs.create(*LONG, UUID(int=6), SETTINGS)) == []


def test_a_partition_deleted_before_its_recovery_goes_at_once() -> None:
    filesystem = crashed()
    logs = measured(filesystem)
    logs.delete(*LONG, NOW)
    assert LONG not in logs.tails and "long-0" not in filesystem.list("/logs")


def test_the_recovery_point_is_lowered_by_the_recovery_where_the_log_ends_below_it() -> None:
    filesystem = crashed()
    logs = open_dir(filesystem)
    log = logs.log(*LONG)
    assert log is not None
    log.flush()
    logs.checkpoint()
    last = f"/logs/long-0/{log.segments.active.base_offset:020d}.log"
    filesystem.remove(last)  # what no power cut does to what was flushed
    filesystem.kill()
    logs = open_dir(filesystem)
    logs.measure_tails(at_once_bytes=0)
    recovery = logs.begin_recovery(*LONG, SETTINGS)
    recovery.run()
    assert recovery.log is not None and recovery.log.log_end_offset < 60
    assert open_points(filesystem)[LONG] == recovery.log.log_end_offset


def open_points(filesystem: MemoryFilesystem) -> dict[tuple[str, int], int]:
    file = filesystem.open(f"/logs/{RECOVERY_POINT}")
    return parse_offsets(file.pread(file.stat().size_bytes, 0))

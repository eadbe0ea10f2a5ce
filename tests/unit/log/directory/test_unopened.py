"""Sizes and retention of logs that nobody uses: decided from what a listing says, and only where that is certain."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.logs import NOW, append, with_settings
from tailrace.log.compaction import plan
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.retention import delete_retention
from tailrace.records.record import Record, build

TOPIC_ID = UUID(int=5)


def open_dir(filesystem: MemoryFilesystem) -> LogDir:
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)


def left(filesystem: MemoryFilesystem, config: LogConfig, count: int, *, step_ms: int = 10, start: int = 0) -> LogDir:
    """A log of count records, closed in order, in a dir that was opened anew."""
    logs = open_dir(filesystem)
    log = logs.create("t", 0, TOPIC_ID, config)
    for n in range(count):
        record = Record(timestamp=NOW + n * step_ms, key=b"%d" % (n % 3), value=bytes(100))
        (done,) = log.append([build([record])], 0, NOW)
        assert done.error_code == 0
    log.advance_log_start_offset(min(start, log.log_end_offset))
    logs.high_watermarks["t", 0] = log.log_end_offset
    logs.close()
    return open_dir(filesystem)


SETTINGS = st.builds(
    with_settings,
    retention_ms=st.sampled_from([-1, 0, 50, 10**9]),
    retention_bytes=st.sampled_from([-1, 0, 900, 2500, 10**9]),
    cleanup_policy=st.sampled_from(["delete", "compact", "compact,delete"]),
    min_cleanable_dirty_ratio=st.just(0.0),
)


@settings(max_examples=150, deadline=None)
@given(SETTINGS, st.integers(0, 40), st.integers(0, 45), st.integers(0, 1000))
def test_where_a_listing_says_that_there_is_no_work_an_opened_log_finds_none(
    config: LogConfig, count: int, start: int, later_ms: int
) -> None:
    filesystem = MemoryFilesystem()
    logs = left(filesystem, config, count, start=start)
    size, works = logs.size_bytes("t", 0), logs.has_work("t", 0, config, NOW + later_ms)
    assert logs.open_logs() == {}
    logs.set_configs({"t": config})
    log = logs.log("t", 0)
    assert log is not None
    assert log.size_bytes == size
    if not works:
        assert plan.dirt_of(log, NOW + later_ms, log.log_end_offset) is None
        assert delete_retention(log, NOW + later_ms, log.log_end_offset) == 0


def test_files_of_other_names_are_nobodys() -> None:
    filesystem, config = MemoryFilesystem(), with_settings(retention_ms=500)
    logs = left(filesystem, config, 3)
    size_bytes = logs.size_bytes("t", 0)
    logs.release()
    filesystem.kill()
    for name in ("notes.log", "7.log", "0" * 21 + ".log"):
        filesystem.open(f"/logs/t-0/{name}", create=True).pwritev([b"x"], 0)
    for name in ("backup-future", "old.t-x.1-future", "lost+found"):
        filesystem.make_directory(f"/logs/{name}")
    logs = open_dir(filesystem)
    assert logs.partitions() == [("t", 0)] and list(logs.futures) == []
    logs.measure_tails(0)
    assert [tail.size_bytes for tail in logs.tails.waiting.values()] == [size_bytes]
    assert logs.size_bytes("t", 0) == size_bytes


def test_a_log_with_nothing_to_do_is_listed_once_and_never_opened() -> None:
    filesystem, config = MemoryFilesystem(), with_settings(retention_ms=500)
    logs = left(filesystem, config, 20)
    opens = filesystem.opens
    assert not logs.has_work("t", 0, config, NOW)
    first = filesystem.opens - opens
    for later_ms in range(400):
        assert not logs.has_work("t", 0, config, NOW + later_ms)
        assert logs.size_bytes("t", 0) > 0
    assert filesystem.opens - opens == first > 0
    assert logs.has_work("t", 0, config, NOW + 1000)
    assert logs.open_logs() == {}


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_a_log_with_files_that_were_left_behind_is_opened_to_have_them_removed(suffix: str) -> None:
    filesystem, config = MemoryFilesystem(), with_settings()
    logs = left(filesystem, config, 3)
    assert not logs.has_work("t", 0, config, NOW)
    filesystem.open(f"/logs/t-0/{0:020d}.log{suffix}", create=True)
    assert open_dir_again(filesystem, logs).has_work("t", 0, config, NOW)


def open_dir_again(filesystem: MemoryFilesystem, logs: LogDir) -> LogDir:
    logs.close()
    return open_dir(filesystem)


def test_after_a_crash_nothing_is_believed_of_a_listing() -> None:
    filesystem, config = MemoryFilesystem(), with_settings()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, config), b"a")
    filesystem.crash(Random(1))
    again = open_dir(filesystem)
    assert [again.has_work(*place, config, NOW) for place in again.partitions()] == [True] * len(again.partitions())


def test_an_index_that_says_nothing_of_the_oldest_segment_has_the_log_opened() -> None:
    filesystem, config = MemoryFilesystem(), with_settings()
    logs = left(filesystem, config, 20)
    filesystem.remove(f"/logs/t-0/{0:020d}.timeindex")
    assert logs.has_work("t", 0, config, NOW)


def test_a_log_that_was_opened_or_deleted_meanwhile_needs_no_look() -> None:
    filesystem, config = MemoryFilesystem(), with_settings()
    logs = left(filesystem, config, 20)
    look = logs.begin_look(logs.partitions())
    logs.delete("t", 0, NOW)
    look()
    assert (logs.size_bytes("t", 0), logs.has_work("t", 0, config, NOW)) == (0, False)

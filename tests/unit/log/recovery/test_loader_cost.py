"""What a recovery reads: the tail behind the recovery point, whatever lies before it."""

from uuid import UUID

import pytest

from support.logs import NOW, RecoveredLogs, append, newest, with_settings
from tailrace.log import lookup
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.segment.search import max_timestamp

SETTINGS = with_settings(segment_bytes=100_000, index_interval_bytes=4096)
BATCH, A_SEGMENT = b"x" * 2_400, 40  # 2.5 KB each with their headers: forty to a segment
MARGIN = 64 * 1024  # checkpoints, a snapshot, an index, and the walk to where the tail begins
LOOK_BACK = 1024 * 1024  # producers' last batches before the snapshot, see snapshots.py


def open_dir(filesystem: MemoryFilesystem) -> LogDir:
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)


def crashed(segments: int, tail: int, *, idempotent: bool = False) -> MemoryFilesystem:
    """Closed segments that are flushed and `tail` batches that are not, after a kill -9."""
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create("t", 0, UUID(int=5), SETTINGS)
    for number in range(segments * A_SEGMENT):
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number} if idempotent else {}
        append(log, BATCH, **producer)
    log.roll()
    begun = log.begin_flush(NOW)  # as housekeeping does each second: what is closed, no more
    assert begun is not None
    begun.run()
    log.finish_flush(begun)
    assert log.recovery_point == segments * A_SEGMENT
    logs.checkpoint()
    for _ in range(tail):
        append(log, BATCH)
    filesystem.kill()
    return filesystem


def read_by_recovery(filesystem: MemoryFilesystem, end_offset: int) -> int:
    """Bytes that were read to open the dir and the log in it."""
    before = filesystem.bytes_read
    log = open_dir(filesystem).log("t", 0)
    assert log is not None and log.log_end_offset == end_offset
    return filesystem.bytes_read - before


@pytest.mark.parametrize("tail", [0, 5, 35])
def test_as_much_is_read_after_forty_segments_as_after_four(tail: int) -> None:
    few, many = (read_by_recovery(crashed(segments, tail), segments * A_SEGMENT + tail) for segments in (4, 40))
    assert abs(many - few) < 1000  # offsets have more digits
    assert many < tail * 2_600 * 2 + MARGIN


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_dir_says_what_is_left_to_recover_and_what_was(clean: bool) -> None:
    filesystem = crashed(1, 3)
    if clean:
        open_dir(filesystem).close()
    logs = open_dir(filesystem)
    heard: list[tuple[tuple[str, int], int, int]] = []

    def hear(key: tuple[str, int], log: Log) -> None:
        heard.append((key, log.unflushed_bytes, logs.remaining_logs_to_recover))

    logs.findings.subscribe(RecoveredLogs(hear))
    assert logs.remaining_logs_to_recover == (0 if clean else 1)
    logs.create("new", 0, UUID(int=6), SETTINGS)
    log = logs.log("t", 0)
    assert log is not None
    assert heard == ([] if clean else [(("t", 0), log.segments.active.size_bytes, 0)])


def test_what_is_read_grows_with_the_tail() -> None:
    empty, half, full = (read_by_recovery(crashed(4, tail), 4 * A_SEGMENT + tail) for tail in (0, 17, 34))
    assert half - empty >= 17 * 2_400
    assert full - half == pytest.approx(half - empty, rel=0.5)


def test_of_producers_only_their_last_megabyte_is_looked_at_again() -> None:
    few, many = (
        read_by_recovery(crashed(segments, 3, idempotent=True), segments * A_SEGMENT + 3) for segments in (13, 22)
    )
    assert abs(many - few) < MARGIN
    assert many < 2 * LOOK_BACK + MARGIN


def read_at_a_clean_start(batches: int, timestamp: int) -> int:
    """Bytes that were read to open a log of one segment and to look for a time in it that nothing is as late as."""
    filesystem = MemoryFilesystem()
    settings = with_settings(segment_bytes=10_000_000, index_interval_bytes=4096)
    log = Log.open(filesystem, "/logs/t-0", settings)
    for _ in range(batches):
        append(log, BATCH, timestamp=timestamp)
    log.close()
    before = filesystem.bytes_read
    log = Log.open(filesystem, "/logs/t-0", settings, recovery_point=batches, clean=True)
    assert (log.log_end_offset, newest(log)) == (batches, timestamp)
    log.roll()
    log = Log.open(filesystem, "/logs/t-0", settings, recovery_point=batches, clean=True)
    assert max_timestamp(log.segments[0]) == timestamp
    return filesystem.bytes_read - before


@pytest.mark.parametrize("timestamp", [NOW, -1])
def test_a_clean_start_walks_through_no_segment_whether_it_has_timestamps_or_not(timestamp: int) -> None:
    assert read_at_a_clean_start(800, timestamp) - read_at_a_clean_start(400, timestamp) < MARGIN


@pytest.mark.parametrize("timed", [0, 399])
def test_a_time_index_that_lost_its_entries_is_made_anew(timed: int) -> None:
    filesystem = MemoryFilesystem()
    settings = with_settings(segment_bytes=10_000_000, index_interval_bytes=0)
    log = Log.open(filesystem, "/logs/t-0", settings)
    for number in range(400):
        append(log, BATCH, timestamp=NOW if number == timed else -1)
    log.close()
    filesystem.open("/logs/t-0/00000000000000000000.timeindex").truncate(0)
    log = Log.open(filesystem, "/logs/t-0", settings, recovery_point=400, clean=True)
    assert newest(log) == NOW
    found = lookup.find(log, NOW)
    assert found is not None and found.offset == timed

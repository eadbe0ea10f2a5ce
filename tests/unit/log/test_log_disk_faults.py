"""What the simulator found (sim/log), each at its lowest layer: failed writes and syncs, lost index bytes, resets."""

import errno
import random

import pytest

from support.logs import DIRECTORY, NOW, SMALL, newest, open_log, some_batch, values_of, with_settings
from support.logs import append as append_to
from tailrace.errors import ErrorCode
from tailrace.log import lookup
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFilesystem, Stopped
from tailrace.log.log import Log
from tailrace.log.producers.snapshots import PendingSnapshot, save_producers, snapshot_offsets

FULL = OSError(errno.ENOSPC, "full")
EVERY_BATCH = with_settings(index_interval_bytes=1)  # has an index entry


def restarted_cleanly(log: Log, filesystem: MemoryFilesystem, config: LogConfig = SMALL) -> Log:
    """The log after a clean shutdown."""
    log.close()
    filesystem.kill()
    return open_log(filesystem, config, recovery_point=log.recovery_point, clean=True)


@pytest.mark.parametrize("closing", ["close", "roll"])
def test_what_a_failed_write_left_is_cut_before_the_segment_is_closed(closing: str) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"kept")
    filesystem.fail_next("write", FULL)
    filesystem.fail_next("truncate", FULL)
    assert log.append([some_batch(bytes(200))], 0, NOW)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    if closing == "roll":
        log.roll()
    log = restarted_cleanly(log, filesystem)
    assert (log.log_end_offset, values_of(log)) == (1, [b"kept"])


def test_what_a_failed_write_left_is_cut_though_nothing_was_written_since_the_log_was_opened() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"kept")
    log = restarted_cleanly(log, filesystem)
    filesystem.fail_next("write", FULL)
    filesystem.fail_next("truncate", FULL)
    assert log.append([some_batch(bytes(200))], 0, NOW)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    log = restarted_cleanly(log, filesystem)
    assert (log.log_end_offset, values_of(log)) == (1, [b"kept"])


def test_after_a_failed_write_the_rest_of_the_same_append_is_refused() -> None:
    # Else a producer's next batch would be taken before the one that is missing, which then is out of order for ever.
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    numbered = [
        some_batch(bytes(400), producer_id=1, producer_epoch=0, base_sequence=sequence) for sequence in range(4)
    ]
    filesystem.fail_next("write", FULL)
    assert {answer.error_code for answer in log.append(numbered, 0, NOW)} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert [answer.base_offset for answer in log.append(numbered, 0, NOW)] == [0, 1, 2, 3]


def test_a_sync_that_fails_while_a_failed_write_is_cut_off_is_not_forgotten() -> None:
    # It took earlier appends with it, and the next one that succeeds would vouch for them.
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a")
    filesystem.fail_next("sync", OSError(errno.EIO, "io"))
    filesystem.fail_next("write", FULL)
    for _ in range(2):
        assert log.append([some_batch(b"b")], 0, NOW)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for sync in (log.flush, log.close, log.roll):
            with pytest.raises(OSError, match="io"):
                sync()


def flushed_and_rolled(filesystem: MemoryFilesystem, when: str) -> Log:
    """Eight batches, flushed to their end; the segment was rolled after the flush, meanwhile, or after a restart."""
    log = open_log(filesystem, EVERY_BATCH)
    for number in range(8):
        append_to(log, b"v", timestamp=NOW + number)
    if when == "after a restart":
        log = restarted_cleanly(log, filesystem, EVERY_BATCH)
    begun = log.begin_flush(NOW, everything=True)
    if when == "meanwhile":
        log.roll()
    if begun is not None:
        begun.run()
        log.finish_flush(begun)
    log.roll()
    filesystem.sync_directory(DIRECTORY)
    return log


@pytest.mark.parametrize("when", ["after", "meanwhile", "after a restart"])
def test_indexes_of_a_segment_that_was_flushed_and_then_rolled_survive_a_crash(when: str) -> None:
    # Recovery does not look into a segment that ends at the recovery point.
    for seed in range(20):
        filesystem = MemoryFilesystem()
        filesystem.page_bytes = 4 * 12  # a lost one leaves whole entries of the time index
        assert flushed_and_rolled(filesystem, when).recovery_point == 8
        filesystem.crash(random.Random(seed))
        log = open_log(filesystem, recovery_point=8)
        assert newest(log) == NOW + 7
        assert [lookup.find(log, NOW + number).offset for number in range(8)] == list(range(8))  # type: ignore[union-attr]


def test_a_segment_whose_indexes_could_not_be_synced_is_not_closed_by_a_second_try() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a")
    log.flush()
    filesystem.fail_next("sync", OSError(errno.EIO, "io"))
    for _ in range(2):
        with pytest.raises(OSError, match="io"):
            log.roll()
    assert log.segments.bases == [0]


def test_a_log_that_begins_anew_knows_no_producers() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll()
    log.reset_to(50)
    assert log.producers.entries == {}
    assert open_log(filesystem, log_start_offset=50).producers.entries == {}


def test_a_snapshot_from_before_the_first_segment_is_not_believed() -> None:
    # A crash while the log began anew may have left it.
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    save_producers(filesystem, DIRECTORY, PendingSnapshot(1, log.producers.entries))
    log = open_log(filesystem, log_start_offset=50)
    assert (log.log_start_offset, log.producers.entries) == (50, {})


def test_a_snapshot_that_a_cut_took_is_written_again() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for _ in range(2):
        append_to(log, b"a")
        append_to(log, b"b")
        log.roll()
        log.flush()
        assert snapshot_offsets(filesystem, DIRECTORY)[-1] == 2
        log.truncate_to(1)
        log.truncate_to(0)
        assert snapshot_offsets(filesystem, DIRECTORY) == []


def test_a_roll_that_fails_is_tried_again_before_anything_is_appended() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a")
    filesystem.fail_next("truncate", FULL)  # of the new segment, whose name is there by then
    with pytest.raises(OSError, match="full"):
        log.roll()
    append_to(log, b"b")
    assert log.segments.bases == [0, 1]
    assert values_of(restarted_cleanly(log, filesystem)) == [b"a", b"b"]


def test_where_a_log_that_begins_anew_got_no_segment_nothing_is_taken() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a")
    filesystem.fail_next("open", FULL)
    with pytest.raises(OSError, match="full"):
        log.reset_to(50)
    assert log.append([some_batch(b"b")], 0, NOW)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert open_log(filesystem, log_start_offset=50).log_end_offset == 50


def test_a_tail_whose_leader_epoch_goes_back_is_cut() -> None:
    # The epoch lies outside the CRC: of a torn write, what was on that part of the disk before may stay.
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for _ in range(3):
        append_to(log, b"v", leader_epoch=5)
    content = filesystem.content(log.segments.active.path(".log"))
    content[2 * log.size_bytes // 3 + 12 : 2 * log.size_bytes // 3 + 16] = bytes(4)
    filesystem.kill()
    log = open_log(filesystem)
    assert (log.log_end_offset, log.epochs.entries()) == (2, [(5, 0)])


def test_the_twin_stops_in_a_call_and_tears_what_it_wrote() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append_to(log, b"a")
    filesystem.torn = lambda length: 65
    filesystem.stop_after(0)
    for _ in range(2):  # it is stopped until it is started again
        with pytest.raises(Stopped):
            append_to(log, b"b")
    filesystem.kill()
    log = open_log(filesystem)
    assert (values_of(log), log.recovery_result.cut_bytes) == ([b"a"], 65)


def test_a_disk_that_went_read_only_refuses_every_change_until_it_heals() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    filesystem.fail_all(OSError(errno.EROFS, "read-only"))
    assert log.append([some_batch(b"a")], 0, NOW)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    for change in (log.close, lambda: filesystem.remove(f"{DIRECTORY}/x"), lambda: filesystem.make_directory("/new")):
        with pytest.raises(OSError, match="read-only"):
            change()
    filesystem.heal()
    append_to(log, b"a")
    assert values_of(log) == [b"a"]

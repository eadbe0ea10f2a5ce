"""Snapshots of the producers are written by a flush, in a thread, and named when the log was not cut meanwhile."""

from __future__ import annotations

import errno

from support.logs import DIRECTORY, NOW, append, open_log
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import join
from tailrace.log.producers.snapshots import snapshot_offsets
from tailrace.log.producers.state import decode_snapshot
from tailrace.log.retention import delete_retention


def test_a_roll_writes_no_snapshot_but_leaves_it_to_the_flush_in_a_thread() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=0)
    log.roll()
    assert snapshot_offsets(filesystem, DIRECTORY) == [] and log.flush_to_come
    flush = log.begin_flush(NOW)
    assert flush is not None
    append(log, b"later", producer_id=4, producer_epoch=0, base_sequence=0)
    flush.run()
    assert snapshot_offsets(filesystem, DIRECTORY) == []
    log.finish_flush(flush)
    assert snapshot_offsets(filesystem, DIRECTORY) == [1]
    path = join(DIRECTORY, f"{1:020d}.snapshot")
    assert decode_snapshot(bytes(filesystem.content(path))).entries.keys() == {3}


def test_a_snapshot_that_was_on_its_way_when_the_log_was_cut_is_not_believed() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=0)
    log.roll()
    flush = log.begin_flush(NOW)
    assert flush is not None
    flush.run()
    log.truncate_to(0)
    log.finish_flush(flush)
    append(log, b"w", producer_id=4, producer_epoch=0, base_sequence=0)
    assert snapshot_offsets(filesystem, DIRECTORY) == []
    assert open_log(filesystem).producers.entries.keys() == {4}


def test_a_log_begins_elsewhere_on_a_disk_that_has_no_room_for_a_snapshot() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    filesystem.fail_next("write", OSError(errno.ENOSPC, "no space left"))
    log.reset_to(17)
    filesystem.heal()
    append(log, b"w", producer_id=4, producer_epoch=0, base_sequence=0)
    assert log.log_end_offset == 18


def test_a_truncation_to_the_log_start_keeps_the_producers_of_segments_that_are_gone() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for sequence in range(2):
        append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=sequence)
        log.roll()
    log.flush(NOW)
    append(log, b"x")
    filesystem.remove(join(DIRECTORY, f"{1:020d}.snapshot"))  # as if a crash had come before it was written
    log.advance_log_start_offset(1)
    assert delete_retention(log, NOW, log.log_end_offset) == 1
    log.truncate_to(1)
    assert log.producers.entries.keys() == {3}


def test_rolls_that_outrun_the_flush_leave_a_snapshot_each() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    for sequence in range(3):
        append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=sequence)
        log.roll()
    log.flush(NOW)
    assert snapshot_offsets(filesystem, DIRECTORY) == [1, 2, 3] and not log.flush_to_come


def test_retention_writes_the_snapshot_that_a_flush_has_on_its_way() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=0)
    log.roll()
    flush = log.begin_flush(NOW)
    assert flush is not None
    flush.run()
    log.advance_log_start_offset(1)
    assert delete_retention(log, NOW, log.log_end_offset) == 1
    log.finish_flush(flush)
    assert snapshot_offsets(filesystem, DIRECTORY) == [1] and not log.flush_to_come


def test_retention_of_a_log_without_producers_reads_no_batches() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"v")
    log.roll()
    append(log, b"w")
    log.roll()
    log.advance_log_start_offset(2)
    filesystem.fail_next("read", OSError("no batch is read"))
    assert delete_retention(log, NOW, log.log_end_offset) == 2
    assert snapshot_offsets(filesystem, DIRECTORY) == []

"""Snapshots of the producers are written by a flush, in a thread, and named when the log was not cut meanwhile."""

from __future__ import annotations

from support.logs import DIRECTORY, NOW, append, open_log
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import join
from tailrace.log.producers.snapshots import snapshot_offsets
from tailrace.log.producers.state import decode_snapshot


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

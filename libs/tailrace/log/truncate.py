"""Where a log loses its newest records: a follower truncates to what its leader has, or begins again elsewhere."""

from __future__ import annotations

from bisect import bisect_right

from tailrace.log.filesystem.checkpoints import CLEANER_OFFSET, LOG_START_OFFSET, RECOVERY_POINT
from tailrace.log.local_log import LocalLog
from tailrace.log.producers.snapshots import load_producers, remove_all_snapshots, remove_snapshots_above
from tailrace.log.segment import tail
from tailrace.log.segment.search import indexes_of, position_of
from tailrace.log.segment.sound import headers
from tailrace.records.batch import Bytes, validate


def truncate_to(log: LocalLog, offset: int) -> None:
    """As Log.truncate_to."""
    if offset >= log.log_end_offset:
        if log.epochs.truncate_from_end(log.log_end_offset):
            log.unsynced.epochs_changed()
        return
    keep = bisect_right(log.segments.bases, offset)
    if keep == 0:
        reset_to(log, offset)
        return
    _lower_checkpoints(log, offset)
    for segment in reversed(log.segments[keep:]):  # newest first: a crash in between leaves no gap
        log.segments.retire(segment)
    # With them, or a snapshot of what was cut could come back behind new records of its offsets.
    remove_snapshots_above(log.filesystem, log.directory, offset)
    log.filesystem.sync_directory(log.directory)
    log.segments.keep_first(keep)
    active = log.segments.active
    position = position_of(active, offset)
    end_offset = offset
    if position < active.size_bytes:
        end_offset = min(offset, next(headers(active, position))[1].base_offset)
    tail.truncate(active, position)
    _after_cut(log, end_offset)


def _lower_checkpoints(log: LocalLog, offset: int) -> None:
    """Before the log is cut at offset."""
    if offset < log.recovery_point:
        # On the disk before the cut: recovery believes what lies below, and new records are about to.
        log.hooks.lower_checkpoint(RECOVERY_POINT, _end_before(log, offset))
    if offset < log.cleaned_offset:
        # Or a pass after a crash would take new records for ones that it has seen, and let old values live.
        log.hooks.lower_checkpoint(CLEANER_OFFSET, offset)
    if offset < log.log_start_offset:
        # Or new records that end below it would be taken for deleted ones.
        log.hooks.lower_checkpoint(LOG_START_OFFSET, _end_before(log, offset))


def _end_before(log: LocalLog, offset: int) -> int:
    """Where the last batch before the one that holds offset ends.

    Not where that one begins: should a crash come before the cut, recovery would find it behind a gap (of compaction)
    below its recovery point, and might take its base offset for a damaged one.
    """
    segment = log.segments[log.segments.index_of(offset)]
    position, end = position_of(segment, offset), segment.base_offset
    for at, header in headers(segment, indexes_of(segment)[0].floor_position(max(0, position - 1))):
        if at >= position:
            break
        end = header.next_offset
    return min(offset, end)


def reset_to(log: LocalLog, offset: int) -> None:
    """As Log.reset_to."""
    _lower_checkpoints(log, offset)
    remove_all_snapshots(log.filesystem, log.directory)
    for segment in log.segments:
        log.segments.retire(segment)
    log.filesystem.sync_directory(log.directory)
    log.segments.clear()
    log.log_start_offset = offset
    segment = log.new_segment(offset)
    segment.forget_indexes()
    log.take_up(segment)
    _after_cut(log, offset)
    segment.create()  # last: if it fails nothing more is taken, and nothing goes where the old segments were


def begin_within(log: LocalLog, records: Bytes) -> None:
    """An empty log begins where the leader's first batch does, if that batch holds the log's start.

    The leader's log start may lie within a batch (DeleteRecords), of which nothing can be left out. As in Kafka the log
    start goes back with it, until the leader's is heard.
    """
    if log.log_end_offset != log.log_start_offset or log.size_bytes or not len(records):
        return
    first = validate(records)
    if 0 <= first.base_offset < log.log_end_offset <= first.last_offset:
        reset_to(log, first.base_offset)


def _after_cut(log: LocalLog, end_offset: int) -> None:
    log.cuts += 1
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.recovery_point = min(log.recovery_point, end_offset)
    log.cleaned_offset = min(log.cleaned_offset, end_offset)
    log.segments.places.clear()
    log.unsynced.cut()
    # What the cut took may have superseded what a pass on its way leaves out.
    log.compaction = None
    if log.epochs.truncate_from_end(end_offset):
        log.unsynced.epochs_changed()
    log.producers = load_producers(log.filesystem, log.directory, log.segments, end_offset)

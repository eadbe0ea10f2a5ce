"""How a log gives up its oldest segments."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.local_log import LocalLog
from tailrace.log.producers.snapshots import remove_snapshots
from tailrace.log.retention_rules import SegmentFacts, expendable
from tailrace.log.segment.search import largest_timestamp_ms, load_indexes
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.view import SegmentView


def delete_retention(log: LocalLog, now_ms: int, high_watermark: int, *, known_only: bool = False) -> int:
    """Gives up segments by retention.ms, retention.bytes and the log start offset; how many.

    Their files are renamed to .deleted and are removed after file.delete.delay.ms. known_only: none is given up by an
    age that would have to be read.
    """
    log.producers.expire(now_ms, log.producer_id_expiration_ms)
    by_policy = "delete" in log.config.cleanup_policy
    ends = log.segments.ends(log.log_end_offset)
    known = {
        id(segment): largest_timestamp_ms(segment)
        for segment in _aged(log, now_ms, high_watermark)
        if segment.indexes is not None or not known_only
    }
    facts = [
        SegmentFacts(end, segment.size_bytes, known.get(id(segment), now_ms))
        for segment, end in zip(log.segments, ends, strict=True)
        if segment.size_bytes or segment is not log.segments.active
    ]
    count = expendable(
        facts,
        now_ms=now_ms,
        log_start_offset=log.log_start_offset,
        high_watermark=high_watermark,
        retention_ms=log.config.retention_ms if by_policy else -1,
        retention_bytes=log.config.retention_bytes if by_policy else -1,
    )
    if count:
        _give_up(log, count, now_ms)
    return count


def _aged(log: LocalLog, now_ms: int, high_watermark: int) -> Iterator[Segment]:
    """The segments whose age is asked for, oldest first: of the next one only if this one may go by its own."""
    config = log.config
    if "delete" not in config.cleanup_policy or config.retention_ms < 0:
        return
    for segment, end in zip(log.segments, log.segments.ends(log.log_end_offset), strict=True):
        if end > high_watermark:
            return
        if end > log.log_start_offset and (segment.size_bytes or segment is not log.segments.active):
            yield segment
            if segment.indexes is None or now_ms - largest_timestamp_ms(segment) <= config.retention_ms:
                return


class Look:
    """Reads the indexes of a segment whose age is asked for: run() in a thread, then take_up()."""

    def __init__(self, log: LocalLog, segment: Segment) -> None:
        self._log = log
        self._as_it_was = (log.cuts, log.directory)
        self._view = SegmentView(segment, OpenFiles(limit=1))

    def run(self) -> None:
        """Raises OSError."""
        load_indexes(self._view.snapshot)

    def take_up(self) -> bool:
        """Whether the log knows them now, and its files are the same."""
        log, segment = self._log, self._view.segment
        here = any(one is segment for one in log.segments)
        unchanged = here and (log.cuts, log.directory) == self._as_it_was
        return unchanged and self._view.take_up() and segment.indexes is not None


def begin_look_at_age(log: LocalLog, now_ms: int, high_watermark: int) -> Look | None:
    """What must be read for that, in a thread if you like, an old segment at a time; None if nothing."""
    unknown = next((one for one in _aged(log, now_ms, high_watermark) if one.indexes is None), None)
    return None if unknown is None else Look(log, unknown)


def _give_up(log: LocalLog, count: int, now_ms: int) -> None:
    if count == len(log.segments):
        log.roll()
    log.keep_producers(log.segments.bases[count])
    log.advance_log_start_offset(max(log.log_start_offset, log.segments.bases[count]))
    for segment in log.segments[:count]:
        log.segments.retire(segment, now_ms, log.config.file_delete_delay_ms)
    log.segments.drop_first(count)
    remove_snapshots(log.filesystem, log.directory, log.segments.bases)

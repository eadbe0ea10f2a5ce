"""How a log gives up its oldest segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.log.retention import SegmentFacts, expendable
from tailrace.log.snapshots import remove_snapshots

if TYPE_CHECKING:
    from tailrace.log.log import Log


def delete_retention(log: Log, now_ms: int, high_watermark: int) -> int:
    """As Log.delete_retention."""
    log.producers.expire(now_ms, log.producer_id_expiration_ms)
    by_policy = "delete" in log.config.cleanup_policy
    ends = [*log.bases[1:], log.log_end_offset]
    facts = [
        SegmentFacts(end, segment.size_bytes, segment.largest_timestamp_ms if by_policy else 0)
        for segment, end in zip(log.segments, ends, strict=True)
        if segment.size_bytes or segment is not log.active
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
        _give_up(log, count, now_ms + log.config.file_delete_delay_ms)
    return count


def _give_up(log: Log, count: int, due_ms: int) -> None:
    if count == len(log.segments):
        log.roll()
    log.advance_log_start_offset(max(log.log_start_offset, log.bases[count]))
    for segment in log.segments[:count]:
        log.doomed.add(segment, due_ms)
    del log.segments[:count], log.bases[:count]
    log.places.clear()
    remove_snapshots(log.filesystem, log.directory, log.bases)

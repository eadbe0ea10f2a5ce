"""Which of the oldest segments may go: retention.ms, retention.bytes and the log start offset. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SegmentFacts(NamedTuple):
    """What the decision reads of one segment; next_offset is the base offset of the following one."""

    next_offset: int
    size_bytes: int
    largest_timestamp_ms: int


def expendable(
    segments: Sequence[SegmentFacts],
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """How many of the oldest segments may go; -1 turns a limit off. Nothing above the high watermark ever goes."""
    committed = 0
    for segment in segments:
        if segment.next_offset > high_watermark:
            break
        committed += 1
    count = 0
    while count < committed and segments[count].next_offset <= log_start_offset:
        count += 1
    if retention_ms >= 0:
        while count < committed and now_ms - segments[count].largest_timestamp_ms > retention_ms:
            count += 1
    if retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments[count:]) - retention_bytes
        while count < committed and excess >= segments[count].size_bytes:
            excess -= segments[count].size_bytes
            count += 1
    return count

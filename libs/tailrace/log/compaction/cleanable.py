"""How dirty a compacted log is and what a pass over it may touch now (KIP-58, KIP-354)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tailrace.config import LONG_MAX
from tailrace.log.config import LogSettings
from tailrace.log.segment.search import largest_timestamp_ms
from tailrace.log.segment.segment import MAX_RELATIVE_OFFSET, Segment
from tailrace.log.segment.valid import headers


class Dirt(NamedTuple):
    """A log as the cleaner judges it. `segments` may be cleaned, below end_offset; overdue: max.compaction.lag.ms."""

    segments: tuple[Segment, ...]
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of what may be cleaned (Kafka's cleanable ratio), 0 where nothing may."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def assess(
    segments: Sequence[Segment], cleaned_offset: int, limit: int, settings: LogSettings, now_ms: int
) -> Dirt | None:
    """How dirty the log is below limit (the high watermark); None if it is not compacted or has no dirty segment.

    The last of segments is the active one, which is never cleaned.
    """
    if "compact" not in settings.cleanup_policy or segments[-1].base_offset <= cleaned_offset:
        return None
    cleanable, end_offset, clean, dirty = [], cleaned_offset, 0, []
    for segment, following in pairwise(segments):
        is_dirty = following.base_offset > cleaned_offset
        lag_ms = settings.min_compaction_lag_ms
        young = lag_ms > 0 and largest_timestamp_ms(segment) > now_ms - lag_ms
        if following.base_offset > limit or (young and is_dirty):
            break
        cleanable.append(segment)
        if is_dirty:
            dirty.append(segment)
            end_offset = following.base_offset
        else:
            clean += segment.size_bytes
    overdue = settings.max_compaction_lag_ms < LONG_MAX and any(
        0 < _first_timestamp(segment) < now_ms - settings.max_compaction_lag_ms for segment in dirty
    )
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if not dirty_bytes:
        return None
    return Dirt(tuple(cleanable), cleaned_offset, end_offset, clean, dirty_bytes, overdue)


def is_due(dirt: Dirt, settings: LogSettings) -> bool:
    """Whether min.cleanable.dirty.ratio is passed, or a record has waited for max.compaction.lag.ms."""
    return dirt.overdue or dirt.ratio > settings.min_cleanable_dirty_ratio


def _first_timestamp(segment: Segment) -> int:
    first = next(headers(segment, 0), None)
    return first[1].max_timestamp if first else 0


def grouped(segments: Sequence[Segment], segment_bytes: int, end_offset: int) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit into one segment together, so that emptied segments do not pile up."""
    group: list[Segment] = []
    size = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, segment_end in zip(segments, ends, strict=True):
        too_wide = bool(group) and segment_end - group[0].base_offset > MAX_RELATIVE_OFFSET
        if group and (size + segment.size_bytes > segment_bytes or too_wide):
            yield tuple(group)
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        yield tuple(group)

"""The indexes of a closed segment: read from their files, and made anew from the batches where they cannot be true.

Nothing in Kafka's format vouches for an index, but each entry names a batch that can be looked at. These are methods of
Segment.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from tailrace.log.read import NotCached
from tailrace.log.segment.background_scan import BackgroundScan
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX, OffsetIndex, TimeIndex

if TYPE_CHECKING:
    from tailrace.log.segment.segment import Segment


def load(segment: Segment) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes of a closed segment from their files; rebuilt from the batches if they are missing or damaged."""
    if segment._walked() and segment._indexes is not None:
        return segment._indexes
    if not segment.reader.waits and (segment.reader.in_haste or not segment._indexes_are_cached()):
        segment._have_walked(BackgroundScan(segment))
    try:
        return segment._load_indexes()
    except (NotCached, OSError):
        segment._indexes = None  # nothing has vouched for them yet
        raise


def read_files(segment: Segment) -> tuple[OffsetIndex, TimeIndex]:
    segment.forget_indexes()
    assert segment._indexes is not None
    offset_index, time_index = segment._indexes
    intact = offset_index.load(segment.filesystem, segment.path(INDEX_SUFFIX), segment.size_bytes)
    intact = time_index.load(segment.filesystem, segment.path(TIME_INDEX_SUFFIX)) and intact
    if not intact or (not len(time_index) and not _timeless(segment, offset_index)):
        if not segment.reader.waits:
            segment._have_walked(BackgroundScan(segment))
        segment.forget_indexes()
        for position, header in segment.headers(0):
            segment.note(header, position)
        segment.seal()
        return segment._indexes
    segment.latest_timestamp, segment.latest_offset = time_index.last()
    if not segment._brought(*time_index.last()):
        segment.examine()
    assert segment._indexes is not None
    return segment._indexes


def _timeless(segment: Segment, offset_index: OffsetIndex) -> bool:
    """Whether a time index without entries can be true: neither the first batch nor the last ones have a time.

    A walk through all of them at each start would take seconds; Kafka looks at none.
    """
    last = offset_index.last()[1] if len(offset_index) else 0
    ends = chain(islice(segment.raw_headers(0), 1), segment.raw_headers(last))
    return all(header.max_timestamp < 0 for _, header in ends)


def are_cached(segment: Segment) -> bool:
    """Whether loading them from their files need not wait for the disk."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        with suppress(FileNotFoundError):
            file = segment.filesystem.open(segment.path(suffix))
            size = file.stat().size_bytes
            if size and not file.cached(size, 0):
                return False
    return True


def offset_before(segment: Segment, timestamp: int) -> int:
    """An offset before which no batch is as late as timestamp."""
    latest, offset = segment.time_index.entry(timestamp)
    if segment.examined or segment._is_first(latest, offset):
        return offset
    segment.examine()
    return segment.time_index.entry(timestamp)[1]


def brought(segment: Segment, timestamp: int, offset: int) -> bool:
    """Whether a time index entry is true: the batch that holds the offset is the one of that timestamp."""
    if timestamp < 0:
        return True
    header = next(segment.raw_headers(segment.position_of(offset)), (0, None))[1]
    return header is not None and header[8] == timestamp and header.base_offset <= offset <= header.last_offset


def is_first(segment: Segment, timestamp: int, offset: int) -> bool:
    """Whether a time index entry is wholly true: no batch since the entry before is as late as the one it names."""
    if timestamp < 0:
        return True
    previous = segment.time_index.entry(timestamp - 1)[1]
    for _, header in segment.raw_headers(segment.position_of(previous)):
        if header[8] >= timestamp or header.next_offset > offset:
            return header[8] == timestamp and header.base_offset <= offset <= header.last_offset
    return False

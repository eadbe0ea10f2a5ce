"""The end of a segment, where it is appended to: cut back, and made ready for more. These are methods of Segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.records.batch import HEADER_SIZE

if TYPE_CHECKING:
    from tailrace.log.segment.segment import Segment


def truncate(segment: Segment, position: int) -> None:
    """Cuts the segment at a batch's beginning and takes the rest's marks back."""
    offset_index = segment.offset_index
    segment.cut(position)
    segment.size_bytes = position
    segment.holes = tuple(hole for hole in segment.holes if hole.end <= position)
    segment._walk = None
    segment.end_offset = None
    segment.full = False
    offset_index.truncate(position)
    next_offset = segment.resume()
    if segment.aborted is not None:
        segment.aborted.truncate(next_offset)


def resume(segment: Segment) -> int:
    """Makes the segment ready for appends, from true index entries and the batches after them; its next offset."""
    offset_index, time_index = segment._indexes or segment.load_indexes()
    start = 0
    if len(offset_index):
        last_offset, start = offset_index.last()
        if not segment.examined and not segment._begins(segment.file.pread(HEADER_SIZE, start), start, last_offset):
            return segment.resume()
    # The indexed batch itself is noted again by the walk below.
    offset_index.truncate(start)
    first = next(segment.headers(0), None)
    segment.first_timestamp = first[1].max_timestamp if first else -1
    start_offset = next((header.base_offset for _, header in segment.headers(start)), segment.base_offset)
    time_index.truncate(start_offset)
    segment.latest_timestamp, segment.latest_offset = time_index.last()
    segment.bytes_since_index_entry = segment.index_interval_bytes + 1 if start else 0
    next_offset = segment.base_offset
    for position, header in segment.headers(start):
        segment.note(header, position)
        next_offset = header.next_offset
    if segment.holes and segment.holes[-1].end == segment.size_bytes:
        next_offset = max(next_offset, segment.holes[-1].next_offset)
    return next_offset

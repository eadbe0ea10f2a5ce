"""The end of a segment, where it is appended to: cut back, and made ready for more."""

from __future__ import annotations

from tailrace.log.segment import search
from tailrace.log.segment.search import indexes_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.valid import headers
from tailrace.records.batch import HEADER_SIZE


def truncate(segment: Segment, position: int) -> None:
    """Cuts the segment at a batch's beginning and takes the rest's marks back."""
    offset_index, _ = indexes_of(segment)
    segment.cut(position)
    segment.size_bytes = position
    segment.holes = tuple(hole for hole in segment.holes if hole.end <= position)
    segment.scan = None
    segment.end_offset = None
    segment.full = False
    offset_index.truncate(position)
    next_offset = resume(segment)
    if segment.aborted is not None:
        segment.aborted.truncate(next_offset)


def resume(segment: Segment) -> int:
    """Makes the segment ready for appends, from true index entries and the batches after them; its next offset."""
    offset_index, time_index = indexes_of(segment)
    start = 0
    if len(offset_index):
        last_offset, start = offset_index.last()
        head = segment.file.pread(HEADER_SIZE, start)
        if not segment.examined and not search.begins(segment, head, start, last_offset):
            return resume(segment)
    # The indexed batch itself is noted again by the walk below.
    offset_index.truncate(start)
    first = next(headers(segment, 0), None)
    segment.first_timestamp = first[1].max_timestamp if first else -1
    start_offset = next((header.base_offset for _, header in headers(segment, start)), segment.base_offset)
    time_index.truncate(start_offset)
    segment.latest_timestamp, segment.latest_offset = time_index.last()
    segment.bytes_since_index_entry = segment.index_interval_bytes + 1 if start else 0
    next_offset = segment.base_offset
    for position, header in headers(segment, start):
        segment.note(header, position)
        next_offset = header.next_offset
    if segment.holes and segment.holes[-1].end == segment.size_bytes:
        next_offset = max(next_offset, segment.holes[-1].next_offset)
    return next_offset

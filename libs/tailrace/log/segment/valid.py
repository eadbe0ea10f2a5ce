"""Reading only what is sound: batches that follow one another, and holes where they do not.

What a reader finds out of order has the whole segment examined (damage.py) before any of it is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.errors import ApiError
from tailrace.log.read import WAIT, Missing, NeedsPages, ReadMode
from tailrace.log.segment.batches import ends_with, raw_headers
from tailrace.log.segment.damage import examine
from tailrace.log.segment.segment import Hole, Segment
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, PLACE, BatchHeader, Bytes, corrupt

_NOTHING: Bytes = b""
MOST_LOOKED_AT: Final = 256  # a quarter of a millisecond


def headers(segment: Segment, position: int, mode: ReadMode = WAIT) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every sound batch from the one at position on, without reading the records.

    Looks one batch ahead: where that does not follow, the segment is examined before either is believed.
    """
    size = segment.size_bytes
    while position < size:
        if segment.holes and (hole := segment.hole_at(position)):
            position = hole.end
            continue
        last: BatchHeader | None = None
        for at, header in raw_headers(segment, position, mode):
            if last is not None:
                if header[0] < last.next_offset:
                    break
                yield position, last
                position = at
            last = header
            if segment.holes and segment.hole_at(at):
                break
        else:
            if last is not None and ends_with(segment, last, position, size):
                yield position, last
                return
        if not segment.examined:
            examine(segment, mode)
        elif last is None:
            return
        elif not (segment.holes and segment.hole_at(position)):
            yield position, last
            position += last.size_bytes


def follow_one_another(segment: Segment, start: int, end: int, lowest: int, mode: ReadMode) -> tuple[int, int] | None:
    """How far batches of offset lowest or later fill [start, end), and what is behind them follows: (end, next offset).

    None where they do not. No more than MOST_LOOKED_AT of them are looked at: the event loop has others to serve.
    """
    size, chunk, first = segment.size_bytes, _NOTHING, start
    at, expected, left = start, lowest, MOST_LOOKED_AT
    while at + HEADER_SIZE <= size:
        if at - first + HEADER_SIZE > len(chunk):
            first, chunk = at, segment.heads(at, at, mode)
            if len(chunk) < HEADER_SIZE:
                break
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, at - first)
        behind = at + length + LOG_OVERHEAD
        if magic != MAGIC or base_offset < 0 or delta < 0 or not at + HEADER_SIZE <= behind <= size:
            break
        if base_offset < expected:
            return None
        if at >= end or not left:
            return (at, expected) if at <= end else None
        at, expected, left = behind, base_offset + delta + 1, left - 1
    whole = at == end == size and (segment.end_offset is None or expected <= segment.end_offset)
    return (end, expected) if whole else None


def settle(
    segment: Segment, start: int, end: int, next_offset: int, lowest: int, mode: ReadMode
) -> tuple[int, int] | None:
    """(end, next offset) of the bytes from start on, up to end, that are known to be sound batches now.

    None where the segment is examined now instead. What was found sound is not looked at again.
    """
    try:
        reached = (end, next_offset) if segment.examined else follow_one_another(segment, start, end, lowest, mode)
        if reached is None:
            examine(segment, mode)
            return None
        if reached[0] == end:
            reached = end, next_offset
    except Missing as missing:
        if not isinstance(missing.needs, NeedsPages):
            raise
        behind = missing.needs.slice.position + missing.needs.slice.length  # all of it at once
        raise segment.missing(start, max(end, behind)) from None
    if start <= segment.valid_to and reached[0] >= segment.valid_from:
        segment.valid_from = min(start, segment.valid_from)
        segment.valid_to = max(reached[0], segment.valid_to)
    else:
        segment.valid_from, segment.valid_to = start, reached[0]
    return reached


def damaged(segment: Segment, hole: Hole) -> ApiError:
    """What is answered in place of a hole."""
    where = f"{segment.path('.log')} from {hole.position} to {hole.end}"
    return corrupt(f"offsets {hole.first_offset} to {hole.next_offset - 1} are damaged: {where}")

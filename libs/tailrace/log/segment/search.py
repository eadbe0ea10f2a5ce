"""Finding a batch in a segment: the sparse index says where to begin, and the heads of the batches from there the rest.

An index entry is believed where the batch that it names lies there. These are methods of Segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, PLACE, Bytes, corrupt

if TYPE_CHECKING:
    from tailrace.log.segment.segment import Segment

_NOTHING: Bytes = b""
_FEW: Final = 4


def position_of(segment: Segment, offset: int) -> int:
    """Where the first batch begins that holds offset or a later one; size_bytes if there is none.

    The beginning of a hole where what held the offset is damaged.
    """
    last_offset, position = segment.offset_index.entry(offset)
    size, chunk, start, next_offset = segment.size_bytes, _NOTHING, position, segment.base_offset
    if last_offset >= 0:
        next_offset = -1
    if last_offset >= 0 and not segment.examined:
        chunk = segment._heads(position, position)
        if not segment._begins(chunk, position, last_offset):
            return segment.position_of(offset)
    while position + HEADER_SIZE <= size:
        if segment.holes and (hole := segment.hole_at(position)):
            if offset < hole.next_offset:
                return hole.position
            position, next_offset = hole.end, hole.next_offset
            continue
        if not start <= position <= start + len(chunk) - HEADER_SIZE:
            start = position
            chunk = segment._heads(position, position)
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, position - start)
        end = position + length + LOG_OVERHEAD
        if base_offset < next_offset or magic != MAGIC or delta < 0 or not position + HEADER_SIZE <= end <= size:
            return segment._examined_position_of(offset, position)
        if base_offset + delta >= offset:
            if base_offset > offset and not segment.examined and next_offset >= 0 and not segment._follows(position):
                return segment._examined_position_of(offset, position)
            return position
        next_offset = base_offset + delta + 1
        position = end
    if segment.end_offset is not None and next_offset <= offset < segment.end_offset and not segment.examined and size:
        return segment._examined_position_of(offset, size)
    return size


def examined_position_of(segment: Segment, offset: int, position: int) -> int:
    if segment.examined:
        raise corrupt(f"no record batch at {position} of {segment.path('.log')}")
    segment.examine()
    return segment.position_of(offset)


def begins(segment: Segment, chunk: Bytes, position: int, last_offset: int, at: int = 0) -> bool:
    """Whether an index entry is true: a batch that ends with last_offset begins there. If not, all is examined.

    chunk[at:] is what lies at position. Kafka's followers index several batches that they appended at once by the
    first's place and the last's end.
    """
    last = -1
    if len(chunk) - at >= HEADER_SIZE:
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, at)
        last, size = base_offset + delta, length + LOG_OVERHEAD
        fits = magic == MAGIC and HEADER_SIZE <= size <= segment.size_bytes - position
        if fits and last == last_offset and base_offset >= 0 and delta >= 0:
            return True
    several = segment.base_offset <= last < last_offset
    segment.examine(suspected=not several, doubted=position if several else None)
    return False


def end_within(segment: Segment, position: int, limit: int, known: Bytes = _NOTHING) -> tuple[int, int]:
    """(end, next offset) of the longest run of whole batches from position that ends at or below limit.

    The end is position itself, with offset -1, if the first batch is too long. known: what has been read from position
    on, if anything.
    """
    few = _few_within(segment, position, limit, known)
    if few is not None:
        return few
    first = position
    last_offset, at = segment.offset_index.entry_at(limit)
    hole = segment.hole_behind(position) if segment.holes else None
    if hole is not None:
        limit, at = min(limit, hole.position), position
    size, chunk, start, next_offset = segment.size_bytes, known, position, -1
    if at <= position:
        at = position
    elif not segment.examined:
        if at - start + HEADER_SIZE > len(chunk):
            chunk, start = segment._heads(at, first, limit), at
        if not segment._begins(chunk, at, last_offset, at - start):
            return segment.end_within(position, limit)
    while at + HEADER_SIZE <= size:
        if at - start + HEADER_SIZE > len(chunk):
            start = at
            chunk = segment._heads(at, first, limit)
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, at - start)
        end = at + length + LOG_OVERHEAD
        if base_offset < next_offset or magic != MAGIC or delta < 0 or not at + HEADER_SIZE <= end <= size:
            if segment.examined:
                break
            segment.examine()
            return segment.end_within(position, limit)
        if end > limit:
            return at, base_offset if at > position else -1
        at, next_offset = end, base_offset + delta + 1
    return at, next_offset


def _few_within(segment: Segment, position: int, limit: int, known: Bytes) -> tuple[int, int] | None:
    """As end_within, where a few steps through what is known get there: sooner than the index says where to begin."""
    at, next_offset, size = position, -1, segment.size_bytes
    for _ in range(_FEW):
        if at - position + HEADER_SIZE > len(known) or segment.holes:
            break
        base_offset, length, magic, delta = PLACE.unpack_from(known, at - position)
        end = at + length + LOG_OVERHEAD
        if base_offset < next_offset or magic != MAGIC or delta < 0 or not at + HEADER_SIZE <= end <= size:
            break
        if end > limit:
            return at, base_offset if at > position else -1
        if limit - at > _FEW * (end - at):
            break  # there are more than a few, as it seems
        at, next_offset = end, base_offset + delta + 1
    return None

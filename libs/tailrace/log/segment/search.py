"""Finding a batch in a segment: the sparse indexes say where to begin, the heads of the batches from there the rest.

A closed segment's indexes are read from their files when first asked for, and made again from the batches where they
cannot be true. Nothing in Kafka's format vouches for an index, but each entry names a batch that can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice
from typing import Final

from tailrace.log.read import WAIT, Missing, ReadMode
from tailrace.log.segment.batches import follows, raw_headers
from tailrace.log.segment.damage import examine
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX, OffsetIndex, TimeIndex
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.valid import headers
from tailrace.log.segment.view import BackgroundScan, scanned, want
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, PLACE, Bytes, corrupt

_NOTHING: Bytes = b""
_FEW: Final = 4


def indexes_of(segment: Segment, mode: ReadMode = WAIT) -> tuple[OffsetIndex, TimeIndex]:
    """Its indexes, loaded if they are not in memory; Missing where a read does not wait for that."""
    return segment.indexes or load_indexes(segment, mode)


def max_timestamp(segment: Segment, mode: ReadMode = WAIT) -> int:
    """The largest timestamp of its batches, -1 if there is none."""
    indexes_of(segment, mode)
    return segment.latest_timestamp


def largest_timestamp_ms(segment: Segment) -> int:
    """How young it is: of batches without a timestamp the file's time tells, as in Kafka. May raise OSError."""
    newest = max_timestamp(segment)
    return newest if newest >= 0 else segment.modified_ms


def load_indexes(segment: Segment, mode: ReadMode = WAIT) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes of a closed segment from their files; rebuilt from the batches if they are missing or damaged."""
    if scanned(segment) and segment.indexes is not None:
        return segment.indexes
    if not mode.waits and (mode.in_haste or not _are_cached(segment)):
        want(segment, BackgroundScan(segment), mode)
    try:
        return _read_files(segment, mode)
    except (Missing, OSError):
        segment.indexes = None  # nothing has vouched for them yet
        raise


def _read_files(segment: Segment, mode: ReadMode) -> tuple[OffsetIndex, TimeIndex]:
    segment.forget_indexes()
    assert segment.indexes is not None
    offset_index, time_index = segment.indexes
    intact = offset_index.load(segment.filesystem, segment.path(INDEX_SUFFIX), segment.size_bytes)
    intact = time_index.load(segment.filesystem, segment.path(TIME_INDEX_SUFFIX)) and intact
    if not intact or (not len(time_index) and not _timeless(segment, offset_index, mode)):
        if not mode.waits:
            want(segment, BackgroundScan(segment), mode)
        segment.forget_indexes()
        for position, header in headers(segment, 0, mode):
            segment.note(header, position)
        segment.seal()
        return segment.indexes
    segment.latest_timestamp, segment.latest_offset = time_index.last()
    if not brought(segment, *time_index.last(), mode):
        examine(segment, mode)
    assert segment.indexes is not None
    return segment.indexes


def _timeless(segment: Segment, offset_index: OffsetIndex, mode: ReadMode) -> bool:
    """Whether a time index without entries can be true: neither the first batch nor the last ones have a time.

    A walk through all of them at each start would take seconds; Kafka looks at none.
    """
    last = offset_index.last()[1] if len(offset_index) else 0
    ends = chain(islice(raw_headers(segment, 0, mode), 1), raw_headers(segment, last, mode))
    return all(header.max_timestamp < 0 for _, header in ends)


def _are_cached(segment: Segment) -> bool:
    """Whether loading them from their files need not wait for the disk."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        with suppress(FileNotFoundError):
            file = segment.filesystem.open(segment.path(suffix))
            size = file.stat().size_bytes
            if size and not file.cached(size, 0):
                return False
    return True


def offset_before(segment: Segment, timestamp: int, mode: ReadMode) -> int:
    """An offset before which no batch is as late as timestamp."""
    latest, offset = indexes_of(segment, mode)[1].entry(timestamp)
    if segment.examined or is_first(segment, latest, offset, mode):
        return offset
    examine(segment, mode)
    return segment.time_index.entry(timestamp)[1]


def brought(segment: Segment, timestamp: int, offset: int, mode: ReadMode = WAIT) -> bool:
    """Whether a time index entry is true: the batch that holds the offset is the one of that timestamp."""
    if timestamp < 0:
        return True
    header = next(raw_headers(segment, position_of(segment, offset, mode), mode), (0, None))[1]
    return header is not None and header[8] == timestamp and header.base_offset <= offset <= header.last_offset


def is_first(segment: Segment, timestamp: int, offset: int, mode: ReadMode = WAIT) -> bool:
    """Whether a time index entry is wholly true: no batch since the entry before is as late as the one it names."""
    if timestamp < 0:
        return True
    previous = segment.time_index.entry(timestamp - 1)[1]
    for _, header in raw_headers(segment, position_of(segment, previous, mode), mode):
        if header[8] >= timestamp or header.next_offset > offset:
            return header[8] == timestamp and header.base_offset <= offset <= header.last_offset
    return False


def position_of(segment: Segment, offset: int, mode: ReadMode = WAIT) -> int:
    """Where the first batch begins that holds offset or a later one; size_bytes if there is none.

    The beginning of a hole where what held the offset is damaged.
    """
    last_offset, position = indexes_of(segment, mode)[0].entry(offset)
    size, chunk, start, next_offset = segment.size_bytes, _NOTHING, position, segment.base_offset
    if last_offset >= 0:
        next_offset = -1
    if last_offset >= 0 and not segment.examined:
        chunk = segment.heads(position, position, mode)
        if not begins(segment, chunk, position, last_offset, mode=mode):
            return position_of(segment, offset, mode)
    while position + HEADER_SIZE <= size:
        if segment.holes and (hole := segment.hole_at(position)):
            if offset < hole.next_offset:
                return hole.position
            position, next_offset = hole.end, hole.next_offset
            continue
        if not start <= position <= start + len(chunk) - HEADER_SIZE:
            start = position
            chunk = segment.heads(position, position, mode)
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, position - start)
        end = position + length + LOG_OVERHEAD
        if base_offset < next_offset or magic != MAGIC or delta < 0 or not position + HEADER_SIZE <= end <= size:
            return _examined_position_of(segment, offset, position, mode)
        if base_offset + delta >= offset:
            doubtful = base_offset > offset and not segment.examined and next_offset >= 0
            if doubtful and not follows(segment, position, mode):
                return _examined_position_of(segment, offset, position, mode)
            return position
        next_offset = base_offset + delta + 1
        position = end
    if segment.end_offset is not None and next_offset <= offset < segment.end_offset and not segment.examined and size:
        return _examined_position_of(segment, offset, size, mode)
    return size


def _examined_position_of(segment: Segment, offset: int, position: int, mode: ReadMode) -> int:
    if segment.examined:
        raise corrupt(f"no record batch at {position} of {segment.path('.log')}")
    examine(segment, mode)
    return position_of(segment, offset, mode)


def begins(segment: Segment, chunk: Bytes, position: int, last_offset: int, at: int = 0, mode: ReadMode = WAIT) -> bool:
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
    examine(segment, mode, suspected=not several, doubted=position if several else None)
    return False


def end_within(
    segment: Segment, position: int, limit: int, known: Bytes = _NOTHING, mode: ReadMode = WAIT
) -> tuple[int, int]:
    """(end, next offset) of the longest run of whole batches from position that ends at or below limit.

    The end is position itself, with offset -1, if the first batch is too long. known: what has been read from position
    on, if anything.
    """
    few = _few_within(segment, position, limit, known)
    if few is not None:
        return few
    first = position
    last_offset, at = indexes_of(segment, mode)[0].entry_at(limit)
    hole = segment.hole_behind(position) if segment.holes else None
    if hole is not None:
        limit, at = min(limit, hole.position), position
    size, chunk, start, next_offset = segment.size_bytes, known, position, -1
    if at <= position:
        at = position
    elif not segment.examined:
        if at - start + HEADER_SIZE > len(chunk):
            chunk, start = segment.heads(at, first, mode, limit), at
        if not begins(segment, chunk, at, last_offset, at - start, mode):
            return end_within(segment, position, limit, mode=mode)
    while at + HEADER_SIZE <= size:
        if at - start + HEADER_SIZE > len(chunk):
            start = at
            chunk = segment.heads(at, first, mode, limit)
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, at - start)
        end = at + length + LOG_OVERHEAD
        if base_offset < next_offset or magic != MAGIC or delta < 0 or not at + HEADER_SIZE <= end <= size:
            if segment.examined:
                break
            examine(segment, mode)
            return end_within(segment, position, limit, mode=mode)
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


def collect_aborted(segments: Iterable[Segment], fetch_offset: int, upper_offset: int) -> list[tuple[int, int]]:
    """As TransactionIndex.collect, over the segments from the one that holds fetch_offset on."""
    found: list[tuple[int, int]] = []
    for segment in segments:
        if segment.aborted is not None:
            more, complete = segment.aborted.collect(fetch_offset, upper_offset)
            found += more
            if complete:
                break
    return found

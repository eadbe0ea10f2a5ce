"""The batches of a segment one after the other: each says by its length where the next begins.

Its header lies outside the CRC in part, so nothing is believed that does not follow from what came before. These are
methods of Segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.log.segment.damage import Hole, fits
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Bytes, read_header

if TYPE_CHECKING:
    from tailrace.log.segment.segment import Segment

_LENGTH: Final = Struct(">8xi")
_NOTHING: Bytes = b""
_SCAN_BYTES: Final = 1024 * 1024


def raw_headers(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """As headers, believing each batch's length and offset: to the first that cannot be one."""
    size, chunk, start = segment.size_bytes, _NOTHING, position
    while position + HEADER_SIZE <= size:
        if position - start + HEADER_SIZE > len(chunk):
            start = position
            chunk = segment._heads(position, position)
            if len(chunk) < HEADER_SIZE:
                return
        header = read_header(chunk, position - start)
        if not fits(header, position, size):
            return
        yield position, header
        position += header[1] + LOG_OVERHEAD


def headers(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every sound batch from the one at position on, without reading the records.

    Looks one batch ahead: where that does not follow, the segment is examined before either is believed.
    """
    size = segment.size_bytes
    while position < size:
        if segment.holes and (hole := segment.hole_at(position)):
            position = hole.end
            continue
        last: BatchHeader | None = None
        for at, header in segment.raw_headers(position):
            if last is not None:
                if header[0] < last.next_offset:
                    break
                yield position, last
                position = at
            last = header
            if segment.holes and segment.hole_at(at):
                break
        else:
            if last is not None and segment.ends_with(last, position, size):
                yield position, last
                return
        if not segment.examined:
            segment.examine()
        elif last is None:
            return
        elif not (segment.holes and segment.hole_at(position)):
            yield position, last
            position += last.size_bytes


def ends_with(segment: Segment, last: BatchHeader, position: int, size_bytes: int) -> bool:
    """Whether the batch at position can be the last of a segment of that size."""
    return position + last.size_bytes == size_bytes and (
        segment.end_offset is None or last.next_offset <= segment.end_offset
    )


def hole_at(segment: Segment, position: int) -> Hole | None:
    """The hole that the position lies in."""
    return next((hole for hole in segment.holes if hole.position <= position < hole.end), None)


def hole_behind(segment: Segment, position: int) -> Hole | None:
    """The first hole that ends behind position."""
    return next((hole for hole in segment.holes if hole.end > position), None)


def follows(segment: Segment, position: int) -> bool:
    """Whether the batch at position ends before the next begins."""
    found = list(islice(segment.raw_headers(position), 2))
    if len(found) == 2:
        return found[0][1].next_offset <= found[1][1].base_offset
    return len(found) == 1 and segment.ends_with(found[0][1], position, segment.size_bytes)


def scan(segment: Segment, position: int) -> Iterator[tuple[int, memoryview]]:
    """(position, whole batch) from position on, read in large pieces; a cut last batch comes as no bytes."""
    size, chunk, start = segment.size_bytes, memoryview(b""), position
    while position < size:
        if size - position < HEADER_SIZE:
            yield position, chunk[:0]
            return
        if position - start + HEADER_SIZE > len(chunk):
            start = position
            chunk = memoryview(segment.file.pread(min(_SCAN_BYTES, size - position), position))
        length = _LENGTH.unpack_from(chunk, position - start)[0] + LOG_OVERHEAD
        if length < HEADER_SIZE or position + length > size:
            yield position, chunk[:0]
            return
        if position - start + length > len(chunk):
            start = position
            chunk = memoryview(segment.file.pread(min(max(_SCAN_BYTES, length), size - position), position))
        yield position, chunk[position - start : position - start + length]
        position += length

"""The batches of a segment one after the other: each says by its length where the next begins.

Its header lies outside the CRC in part, so nothing is believed here beyond what a batch says of itself; valid.py
compares it with what came before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import Final

from tailrace.log.read import WAIT, ReadMode
from tailrace.log.segment.segment import Segment
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, Bytes, read_header

_LENGTH: Final = Struct(">8xi")
_NOTHING: Bytes = b""
_SCAN_BYTES: Final = 1024 * 1024


def fits(header: BatchHeader, position: int, size_bytes: int) -> bool:
    """Whether that can be a batch at all, as far as its header says, in a segment of that size."""
    return (
        header[3] == MAGIC
        and HEADER_SIZE <= header.size_bytes <= size_bytes - position
        and header[0] >= 0
        and header[6] >= 0
    )


def raw_headers(segment: Segment, position: int, mode: ReadMode = WAIT) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch from position on, to the first that cannot be one; in whatever order."""
    size, chunk, start = segment.size_bytes, _NOTHING, position
    while position + HEADER_SIZE <= size:
        if position - start + HEADER_SIZE > len(chunk):
            start = position
            chunk = segment.heads(position, position, mode)
            if len(chunk) < HEADER_SIZE:
                return
        header = read_header(chunk, position - start)
        if not fits(header, position, size):
            return
        yield position, header
        position += header[1] + LOG_OVERHEAD


def ends_with(segment: Segment, last: BatchHeader, position: int, size_bytes: int) -> bool:
    """Whether the batch at position can be the last of a segment of that size."""
    return position + last.size_bytes == size_bytes and (
        segment.end_offset is None or last.next_offset <= segment.end_offset
    )


def follows(segment: Segment, position: int, mode: ReadMode) -> bool:
    """Whether the batch at position ends before the next begins."""
    found = list(islice(raw_headers(segment, position, mode), 2))
    if len(found) == 2:
        return found[0][1].next_offset <= found[1][1].base_offset
    return len(found) == 1 and ends_with(segment, found[0][1], position, segment.size_bytes)


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

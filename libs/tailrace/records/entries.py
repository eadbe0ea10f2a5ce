"""Where the records of a batch lie and what compaction asks of each, without building a Record of any.

Several times faster than record.iterate, and what stays of a batch is copied byte for byte.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.records.batch import HEADER_SIZE, BatchHeader, Bytes, corrupt, pack
from tailrace.records.compression import MAX_DECOMPRESSED_BYTES, compress, decompress
from tailrace.records.record import read_varint


class Entry(NamedTuple):
    """One record: its deltas to the batch's base, its key, and its bytes [start, end) with the length before them."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    tombstone: bool
    start: int
    end: int


def entries(header: BatchHeader, batch: Bytes, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> tuple[bytes, list[Entry]]:
    """(the plain records, an entry for each); CORRUPT_MESSAGE where they do not fit the batch or max_bytes."""
    if not header.record_count:
        return b"", []
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size_bytes], max_bytes)
    found: list[Entry] = []
    position, size, make, new = 0, len(data), Entry, tuple.__new__
    try:
        for _ in range(header.record_count):
            start = position
            length, position = read_varint(data, position)
            end = position + length
            timestamp_delta, position = read_varint(data, position + 1)  # one byte of attributes, unused
            offset_delta, position = read_varint(data, position)
            length, position = read_varint(data, position)
            key = None
            if length >= 0:
                key = data[position : position + length]
                position += length
            length, position = read_varint(data, position)
            if end > size or position + max(length, 0) > end:
                raise corrupt("a record does not fit its batch")
            found.append(new(make, (offset_delta, timestamp_delta, key, length < 0, start, end)))
            position = end
    except IndexError:
        raise corrupt("a record does not fit its batch") from None
    if position != size:
        raise corrupt("bytes are left after the last record")
    return data, found


def rebuilt(header: BatchHeader, data: bytes, kept: list[Entry]) -> bytearray:
    """The batch with only these of its records, in the same codec; offsets and timestamps stay what they were."""
    body = b"".join([data[entry[4] : entry[5]] for entry in kept])
    newest = header.max_timestamp
    if not header.is_log_append_time:  # with LogAppendTime the header's is the time of all its records
        newest = header.base_timestamp + max(entry[1] for entry in kept)
    fields = header._replace(max_timestamp=newest, record_count=len(kept))
    return pack(fields, compress(header.codec, body))

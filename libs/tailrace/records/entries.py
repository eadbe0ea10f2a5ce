"""Where the records of a batch lie and what is asked of each most often, without building a Record of any.

Several times faster than record.iterate, and what stays of a batch is copied byte for byte. Records are looked at one
at a time and their headers not at all: a few kilobytes may hold millions of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tailrace.records.batch import HEADER_SIZE, BatchHeader, Bytes, corrupt, pack
from tailrace.records.compression import MAX_DECOMPRESSED_BYTES, compress, decompress
from tailrace.records.record import with_delete_horizon
from tailrace.wire.varint import read_zigzag, write_zigzag

_2_TO_63: Final = 2**63


class RecordEntry(NamedTuple):
    """One record: its deltas to the batch's base, its key, and its bytes [start, end) with the length before them.

    From `rest` on there is what comes after the timestamp.
    """

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    tombstone: bool
    start: int
    end: int
    rest: int


class RetainedRecords(NamedTuple):
    """What stays of a batch: record_count records one after another, the newest of their timestamp deltas."""

    records: bytes | bytearray
    record_count: int
    newest_delta: int
    tombstones: bool


def plain_records(header: BatchHeader, batch: Bytes, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """All records of the batch, decompressed; CORRUPT_MESSAGE where they cannot be, or are more than max_bytes."""
    if not header.record_count:
        return b""
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size_bytes], max_bytes)


def entries(data: bytes | bytearray, count: int) -> Iterator[RecordEntry]:
    """An entry for each of the plain records; CORRUPT_MESSAGE, maybe after some, where they are not so many."""
    position, size, make, new = 0, len(data), RecordEntry, tuple.__new__
    try:
        for _ in range(count):
            start = position
            length, position = read_zigzag(data, position)
            end = position + length
            timestamp_delta, rest = read_zigzag(data, position + 1)  # one byte of attributes, unused
            offset_delta, position = read_zigzag(data, rest)
            length, position = read_zigzag(data, position)
            key = None
            if length >= 0:
                key = bytes(data[position : position + length])
                position += length
            length, position = read_zigzag(data, position)
            if end > size or position + max(length, 0) > end:
                raise corrupt("a record does not fit its batch")
            yield new(make, (offset_delta, timestamp_delta, key, length < 0, start, end, rest))
            position = end
    except IndexError:
        raise corrupt("a record does not fit its batch") from None
    if position != size:
        raise corrupt("bytes are left after the last record")


def select(header: BatchHeader, batch: Bytes, stays: Callable[[RecordEntry], bool]) -> RetainedRecords:
    """Those records of the batch that stay; CORRUPT_MESSAGE where it is not what its header says."""
    data = plain_records(header, batch)
    view, body = memoryview(data), bytearray()
    count = copied = 0  # what lies between dropped records is copied at once
    newest, tombstones = -_2_TO_63, False
    for entry in entries(data, header.record_count):
        if stays(entry):
            count += 1
            newest = max(newest, entry[1])
            tombstones = tombstones or entry[3]
        else:
            body += view[copied : entry[4]]
            copied = entry[5]
    if not copied:
        return RetainedRecords(data, count, newest, tombstones)
    body += view[copied:]
    return RetainedRecords(body, count, newest, tombstones)


def rebuilt(header: BatchHeader, kept: RetainedRecords) -> bytearray:
    """The batch with only these of its records, in the same codec; offsets and timestamps stay what they were."""
    newest = header.max_timestamp
    if not header.is_log_append_time:  # with LogAppendTime the header's is the time of all its records
        newest = _int64(header.base_timestamp + kept.newest_delta)
    fields = header._replace(max_timestamp=newest, record_count=kept.record_count)
    return pack(fields, compress(header.codec, kept.records))


def rebuilt_with_horizon(header: BatchHeader, kept: RetainedRecords, horizon_ms: int) -> bytearray:
    """As rebuilt, and the batch's tombstones may go at horizon_ms: that is its base timestamp then (KIP-534)."""
    shift, body, view = header.base_timestamp - horizon_ms, bytearray(), memoryview(kept.records)
    newest = -_2_TO_63
    for entry in entries(kept.records, kept.record_count):
        delta = _int64(entry[1] + shift)
        newest = max(newest, delta)
        start = bytearray(1)  # of attributes
        write_zigzag(start, delta)
        write_zigzag(body, len(start) + entry[5] - entry[6])
        body += start
        body += view[entry[6] : entry[5]]
    return rebuilt(
        with_delete_horizon(header, horizon_ms), RetainedRecords(body, kept.record_count, newest, kept.tombstones)
    )


def _int64(value: int) -> int:
    """As Java adds timestamps: a producer may have written any delta."""
    return (value + _2_TO_63) % (2 * _2_TO_63) - _2_TO_63

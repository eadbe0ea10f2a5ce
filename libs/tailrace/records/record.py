"""Records inside a batch: reading them with bounded decompression, and building batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from tailrace.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    corrupt,
    pack,
    read_header,
)
from tailrace.records.compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from tailrace.wire.varint import read_zigzag, write_zigzag

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

_2_TO_31: Final = 2**31


class CutHeaders(tuple[tuple[str, bytes | None], ...]):
    """The first headers of a record that has more; left_out: how many more."""

    left_out = 0


class Record(NamedTuple):
    """One record; offset and timestamp are absolute (ms), a null key or value is None."""

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


def iterate(
    batch: Bytes,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    most_headers: int = _2_TO_31,
    *,
    header: BatchHeader | None = None,
) -> Iterator[Record]:
    """The records of one whole batch; CORRUPT_MESSAGE if it is damaged or decompresses to more than max_bytes.

    header: the batch's, if it has been read. A record of more than most_headers has CutHeaders: each takes a hundred
    times the two bytes that it may be sent as.
    """
    if len(batch) < HEADER_SIZE:
        raise corrupt("fewer bytes than a record batch header")
    if header is None:
        header = read_header(batch)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size_bytes <= len(batch):
        raise corrupt("not a whole record batch of magic 2")
    if header.record_count == 0:
        return
    payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    data = decompress(header.codec, payload, max_bytes)
    position = 0
    for _ in range(header.record_count):
        try:
            record, position = _read_record(data, position, header, most_headers)
        except (IndexError, UnicodeDecodeError):
            raise corrupt("a record does not fit its batch") from None
        yield record
    if position != len(data):
        raise corrupt("bytes are left after the last record")


def build(  # the header's fields are the arguments
    records: Iterable[Record],
    *,
    compression: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch in a writable buffer; offsets count up from base_offset, whatever the records say."""
    numbered = [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    assert numbered, "a batch holds at least one record"
    attributes = compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    return rebuild(
        BatchHeader(
            base_offset, 0, leader_epoch, MAGIC, 0, attributes, len(numbered) - 1, numbered[0].timestamp, -1,
            producer_id, producer_epoch, base_sequence, len(numbered),
        ),
        numbered,
    )  # fmt: skip


def rebuild(header: BatchHeader, records: list[Record]) -> bytearray:
    """A batch with this header's identity, offsets and base timestamp and only these of its records (compaction)."""
    body = bytearray()
    for record in records:
        encoded = _encode_record(record, header.base_timestamp, header.base_offset)
        write_zigzag(body, len(encoded))
        body += encoded
    # With LogAppendTime the header's max timestamp is the time of all records and must stay.
    newest = header.max_timestamp if header.is_log_append_time else max(record.timestamp for record in records)
    fields = header._replace(max_timestamp=newest, record_count=len(records))
    return pack(fields, compress(header.codec, body))


def recompress(header: BatchHeader, plain: bytes, codec: Codec, level: int | None) -> bytearray:
    """The batch of these plain records under another compression type."""
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    return pack(header._replace(attributes=attributes), compress(codec, plain, level))


def with_delete_horizon(header: BatchHeader, horizon_ms: int) -> BatchHeader:
    """The header whose base timestamp says when the batch's tombstones may go (KIP-534)."""
    return header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)


def _read_record(data: bytes, position: int, header: BatchHeader, most_headers: int) -> tuple[Record, int]:
    length, position = read_zigzag(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise IndexError
    timestamp_delta, position = read_zigzag(data, position + 1)  # one byte of attributes, unused
    offset_delta, position = read_zigzag(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    count, position = read_zigzag(data, position)
    headers: Headers = ()
    if count:
        headers, position = _read_headers(data, position, end, count, most_headers)
    if position != end:
        raise IndexError
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_headers(data: bytes, position: int, end: int, count: int, most: int) -> tuple[Headers, int]:
    if not 0 <= count <= end - position:
        raise IndexError
    headers = []
    for _ in range(min(count, most)):
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        if key is None:
            raise IndexError
        headers.append((key.decode(), value))
    if count <= most:
        return tuple(headers), position
    cut = CutHeaders(headers)
    cut.left_out = count - most
    return cut, skip_headers(data, position, end, cut.left_out)


def skip_headers(data: bytes, position: int, end: int, count: int) -> int:
    """Where `count` headers end that begin at position; IndexError where they do not fit before `end`."""
    if not 0 <= count <= end - position:
        raise IndexError
    for _ in range(count):
        length, position = read_zigzag(data, position)
        if length < 0:  # a key cannot be null
            raise IndexError
        length, position = read_zigzag(data, position + length)
        if length < -1 or position > end:
            raise IndexError
        position += max(0, length)
    return position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_zigzag(data, position)
    if length < 0:
        if length != -1:
            raise IndexError
        return None, position
    if position + length > end:
        raise IndexError
    return data[position : position + length], position + length


def _encode_record(record: Record, base_timestamp: int, base_offset: int) -> bytearray:
    body = bytearray(1)
    write_zigzag(body, record.timestamp - base_timestamp)
    write_zigzag(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_zigzag(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key.encode())
        _write_bytes(body, value)
    return body


def _write_bytes(output: bytearray, value: bytes | None) -> None:
    if value is None:
        write_zigzag(output, -1)
    else:
        write_zigzag(output, len(value))
        output += value

"""Record batch v2 (magic 2, KIP-98) as a view on bytes.

The broker never decodes records on the hot path: it reads the 61-byte header, checks the CRC-32C over everything from
the attributes on, and stamps the base offset and the leader epoch, which lie outside the CRC. Refusals are ApiError.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from tailrace.errors import ApiError, ErrorCode
from tailrace.records.compression import MAX_DECOMPRESSED_BYTES, Codec
from tailrace.wire import pieces

Bytes: TypeAlias = pieces.Bytes
WritableBytes: TypeAlias = bytearray | memoryview

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and batch length, which batch_length does not count
MAGIC: Final = 2

CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40  # base_timestamp is the time from which tombstones may go (KIP-534)
LAST_PRODUCER_EPOCH: Final = 2**15 - 1  # of one producer id (KIP-360)

RECORD_BYTES_MIN: Final = 7  # its length, attributes, time, offset, key's length, value's length, count of headers
_CODECS: Final = {int(codec): codec for codec in Codec}  # four times as fast as Codec(number)
_LAST_CODEC: Final = int(Codec.ZSTD)
# Bytes that one compressed byte can stand for, at most and roundly: deflate's 1032, snappy's 64 for three, lz4's 255, a
# block of 128 KiB for four with zstd.
_RATIO_MAX: Final[dict[int, int]] = {Codec.GZIP: 1100, Codec.SNAPPY: 64, Codec.LZ4: 256, Codec.ZSTD: 1 << 16}
_NOT_ONE: Final = "a produce request carries exactly one record batch a partition"
_unpack_header = HEADER.unpack_from
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")


PLACE: Final = Struct(">qi4xb6xi")
"""Of a header what says where the batch lies: base offset, batch length, magic, last offset delta."""


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, as they are on the wire and on disk."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        codec = _CODECS.get(self.attributes & COMPRESSION_MASK)
        if codec is None:
            raise corrupt("unknown compression type")
        return codec

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)


def checksum(data: Bytes) -> int:
    """The CRC-32C of Kafka's batches and snapshots."""
    return crc32c(data)


def corrupt(message: str) -> ApiError:
    """What a damaged batch is answered with."""
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)


def read_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header at position, unchecked; the buffer must hold 61 bytes from there."""
    return tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))


def validate(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header of the whole, undamaged batch at position; else CORRUPT_MESSAGE or (magic 0 or 1) INVALID_RECORD."""
    if len(buffer) - position < HEADER_SIZE:
        raise corrupt("fewer bytes than a record batch header")
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    if header[3] != MAGIC:
        if 0 <= header[3] < MAGIC:
            raise ApiError(ErrorCode.INVALID_RECORD, "record batches must have magic 2")
        raise corrupt(f"there is no magic {header[3]}")
    end = position + LOG_OVERHEAD + header[1]
    if end > len(buffer) or header[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise corrupt("the record batch length does not fit its bytes")
    if crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end]) != header[4]:
        raise corrupt("the record batch has a wrong CRC-32C")
    return header


def validate_produced(buffer: Bytes) -> BatchHeader:
    """As validate, for a client's produce: exactly one batch, no control batch, a record for every offset."""
    size = len(buffer)
    if size < HEADER_SIZE:
        raise ApiError(ErrorCode.INVALID_RECORD, _NOT_ONE)
    header = tuple.__new__(BatchHeader, _unpack_header(buffer))
    # All of it at once for what nearly every batch is; the rest says what is wrong with one that is not.
    if (
        header[1] + LOG_OVERHEAD == size
        and header[3] == MAGIC
        and crc32c(memoryview(buffer)[ATTRIBUTES_POSITION:]) == header[4]
        and header[12] == header[6] + 1 > 0
        and (header[12] * RECORD_BYTES_MIN <= size - HEADER_SIZE or can_hold(header))
        and not header[5] & CONTROL
        and header[5] & COMPRESSION_MASK <= _LAST_CODEC
    ):
        return header
    if header[1] > size - LOG_OVERHEAD:
        raise ApiError(ErrorCode.INVALID_RECORD, _NOT_ONE)  # Kafka reads such a field as holding no batch at all
    header = validate_whole(buffer)
    refuse_unproducible(header)
    return header


def validate_whole(buffer: Bytes) -> BatchHeader:
    """As validate; INVALID_RECORD if the buffer holds more than the one batch."""
    header = validate(buffer)
    if header[1] + LOG_OVERHEAD != len(buffer):
        raise ApiError(ErrorCode.INVALID_RECORD, _NOT_ONE)
    return header


def refuse_unproducible(header: BatchHeader) -> None:
    """INVALID_RECORD for what a client may not write although its bytes are undamaged."""
    count = header[12]
    if count <= 0 or header[6] != count - 1:
        raise ApiError(ErrorCode.INVALID_RECORD, "the record count does not match the batch's offsets")
    if not can_hold(header):
        raise ApiError(ErrorCode.INVALID_RECORD, "the batch is too small for as many records as it claims")
    if header[5] & CONTROL:
        raise ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header[5] & COMPRESSION_MASK > Codec.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "unknown compression type")


def can_hold(header: BatchHeader) -> bool:
    """Whether so many bytes can be so many records; each takes an offset, so nobody may claim those of 2^31.

    Kafka counts the records, which takes decompressing them. Here the best that a codec can do is believed, up to what
    a batch may decompress to.
    """
    records_bytes = header[1] + LOG_OVERHEAD - HEADER_SIZE
    codec = header[5] & COMPRESSION_MASK
    if codec:
        most_bytes = records_bytes * _RATIO_MAX.get(codec, 1)
        records_bytes = min(most_bytes, max(records_bytes, MAX_DECOMPRESSED_BYTES))
    return header[12] * RECORD_BYTES_MIN <= records_bytes


def stamp(buffer: WritableBytes, position: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch at position its place in the log; both fields lie outside the CRC."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def stamp_log_append_time(buffer: WritableBytes, position: int, now_ms: int) -> None:
    """Sets the timestamp type and the max timestamp of the batch at position (message.timestamp.type) and its CRC."""
    _, length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, now_ms)
    _seal(buffer, position, length + LOG_OVERHEAD)


def stamp_max_timestamp(buffer: WritableBytes, position: int, max_timestamp: int) -> None:
    """Sets the max timestamp of the batch at position to what its records say, and its CRC."""
    _, length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    _seal(buffer, position, length + LOG_OVERHEAD)


def without_records(header: BatchHeader) -> bytearray:
    """The batch with no record left: what compaction keeps so that a producer's last sequence number survives."""
    empty = bytearray(HEADER_SIZE)
    # An empty batch is never compressed: there would be nothing valid to decompress.
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    length = HEADER_SIZE - LOG_OVERHEAD
    fields = header._replace(
        batch_length=length, attributes=attributes, base_timestamp=header.max_timestamp, record_count=0
    )
    HEADER.pack_into(empty, 0, *fields)
    _seal(empty, 0, HEADER_SIZE)
    return empty


def _seal(buffer: WritableBytes, position: int, size_bytes: int) -> None:
    checked = memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size_bytes]
    _CRC.pack_into(buffer, position + CRC_POSITION, crc32c(checked))


def pack(header: BatchHeader, records: Bytes) -> bytearray:
    """A whole batch from its header fields and its (compressed) records; batch_length and crc are computed."""
    batch = bytearray(HEADER_SIZE + len(records))
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    batch[HEADER_SIZE:] = records
    _seal(batch, 0, len(batch))
    return batch


def whole_batches(records: Bytes) -> Iterator[memoryview]:
    """The batches of a records field, by their lengths; a last one that is cut, as Fetch may leave it, is left out."""
    view = memoryview(records)
    position = 0
    while len(view) - position >= HEADER_SIZE:
        size = _OFFSET_AND_LENGTH.unpack_from(view, position)[1] + LOG_OVERHEAD
        if size > len(view) - position:
            return
        if size < HEADER_SIZE:
            raise corrupt("the record batch length does not fit its bytes")
        yield view[position : position + size]
        position += size


def split(records: Bytes) -> list[memoryview]:
    """The batches of a records field, by their lengths alone; CORRUPT_MESSAGE where the lengths do not add up."""
    view = memoryview(records)
    batches = []
    position, end = 0, len(view)
    while position < end:
        if end - position < HEADER_SIZE:
            raise corrupt("fewer bytes than a record batch header")
        size = _OFFSET_AND_LENGTH.unpack_from(view, position)[1] + LOG_OVERHEAD
        if size < HEADER_SIZE or position + size > end:
            raise corrupt("the record batch length does not fit its bytes")
        batches.append(view[position : position + size])
        position += size
    return batches

"""Record batches v2 built byte by byte, independent of the code under test, so that any field can be wrong."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import crc32c

CONTROL, TRANSACTIONAL = 0x20, 0x10
HEADER = struct.Struct(">qiibIhiqqqhii")


def varint(value: int) -> bytes:
    """Zig-zag varint, as record fields use it."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out + bytes([rest]))


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int,
    value: bytes | None,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
    timestamp_delta: int = 0,
) -> bytes:
    """One record with its length in front."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + _sized(key) + _sized(value) + varint(len(headers))
    for name, content in headers:
        body += _sized(name.encode()) + _sized(content)
    return varint(len(body)) + body


@dataclass
class Batch:
    """The fields of one batch; `encode` computes what is None."""

    records: list[bytes] = field(default_factory=lambda: [record(0, b"value")])
    attributes: int = 0
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    base_timestamp: int = 1_700_000_000_000
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_offset_delta: int | None = None
    record_count: int | None = None
    crc: int | None = None
    payload: bytes | None = None
    length: int | None = None

    def encode(self) -> bytes:
        """The bytes of the batch."""
        payload = b"".join(self.records) if self.payload is None else self.payload
        count = len(self.records) if self.record_count is None else self.record_count
        last = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        length = 49 + len(payload) if self.length is None else self.length
        newest = self.base_timestamp if self.max_timestamp is None else self.max_timestamp
        tail = struct.pack(">hiqq", self.attributes, last, self.base_timestamp, newest)
        tail += struct.pack(">qhii", self.producer_id, self.producer_epoch, self.base_sequence, count) + payload
        crc = crc32c.crc32c(tail) if self.crc is None else self.crc
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + tail


def batch(*values: bytes, **fields: int | None) -> bytes:
    """A batch of plain values."""
    records = [record(n, value) for n, value in enumerate(values)]
    return Batch(records=records, **fields).encode()  # type: ignore[arg-type]

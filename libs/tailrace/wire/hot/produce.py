"""Produce on the hot path, by hand: decode without a copy, answer with one pack per partition.

Versions 3-13 (the schema's). v9 is flexible, v10 has leader hints (KIP-951), v13 addresses topics by id (KIP-516).
The schema-driven codec is the oracle in tests/protocol, for every version.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from tailrace.wire.apis import ApiKey
from tailrace.wire.limits import MOST_STRING_BYTES, ceiling
from tailrace.wire.malformed import Malformed
from tailrace.wire.pieces import Bytes
from tailrace.wire.varint import read_unsigned, unsigned

_I16 = Struct(">h")
_I32 = Struct(">i")
_ACKS_TIMEOUT = Struct(">hi")
_HEAD = Struct(">ii")
_PARTITION = Struct(">ihqqq")
_PARTITION_V3 = Struct(">ihqq")
# The shard epoch of a coordinator's append travels in this tagged field of its partition, on internal listeners only.
SHARD_EPOCH_TAG = 10_000
_MOST_TOPICS = ceiling(ApiKey.PRODUCE, "topic_data").most
_MOST_PARTITIONS = ceiling(ApiKey.PRODUCE, "topic_data.partition_data").most


class ProducePartition(NamedTuple):
    """One partition's records: a view into the request, valid while the frame is."""

    partition: int
    records: memoryview | None
    shard_epoch: int


class ProduceTopic(NamedTuple):
    """A topic by name (v3-12) or id (v13), as bytes."""

    key: bytes
    partitions: list[ProducePartition]


class Produce(NamedTuple):
    """A decoded request."""

    transactional_id: bytes | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class ManyRows(Exception):
    """A request has more topics and partitions than its decoder was to take."""


def decode_produce(version: int, body: memoryview, most_rows: int = _MOST_TOPICS + _MOST_PARTITIONS) -> Produce:
    """Raises Malformed on anything that is not exactly one Produce body of this version, ManyRows beyond most_rows.

    most_rows: of topics and partitions together.
    """
    try:
        decoded, pos = _flexible(version, body, most_rows) if version >= 9 else _classic(body, most_rows)
    except (IndexError, error) as short:
        raise Malformed("Produce ends in the middle of a field") from short
    if pos != len(body):
        raise Malformed(f"Produce has {len(body)} bytes, its fields {pos}")
    return decoded


def _count(value: int, left: int, most: int, taken: int) -> int:
    """The count, where so many bytes are left, and its list may have so many rows; its decoder takes `taken` more."""
    if not 0 <= value <= left:
        raise Malformed(f"Produce has a count of {value}, {left} bytes are left")
    if value > most:
        raise Malformed("Produce has more topics or partitions than a request may have (docs/limits.md)")
    if value > taken:
        raise ManyRows
    return value


def _classic(body: memoryview, most_rows: int) -> tuple[Produce, int]:
    i16, i32, end = _I16.unpack_from, _I32.unpack_from, len(body)
    (length,) = i16(body, 0)
    pos = 2
    transactional_id = None
    if length >= 0:
        transactional_id = bytes(body[2 : 2 + length])
        pos += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, pos)
    topics = []
    (count,) = i32(body, pos + 6)
    pos += 10
    left, most_rows = _MOST_PARTITIONS, most_rows - _count(count, end - pos, _MOST_TOPICS, most_rows)
    for _ in range(count):
        (length,) = i16(body, pos)
        pos += 2
        if length < 0:
            raise Malformed("Produce names no topic")
        key = bytes(body[pos : pos + length])
        pos += length
        (partitions,) = i32(body, pos)
        pos += 4
        rows = []
        for _ in range(_count(partitions, end - pos, left, most_rows)):
            index, length = _HEAD.unpack_from(body, pos)
            pos += 8
            if length < -1:
                raise Malformed(f"records have length {length}")
            rows.append(ProducePartition(index, body[pos : pos + length] if length >= 0 else None, -1))
            pos += max(length, 0)
        left -= partitions
        most_rows -= partitions
        topics.append(ProduceTopic(key, rows))
    return Produce(transactional_id, acks, timeout_ms, topics), pos


def _flexible(version: int, body: memoryview, most_rows: int) -> tuple[Produce, int]:
    end = len(body)
    length, pos = read_unsigned(body, 0)
    transactional_id = None
    if length > MOST_STRING_BYTES + 1:
        raise Malformed(f"Produce has a transactional id of {length - 1} bytes")
    if length:
        transactional_id = bytes(body[pos : pos + length - 1])
        pos += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, pos)
    count, pos = read_unsigned(body, pos + 6)
    topics, left = [], _MOST_PARTITIONS
    most_rows -= _count(count - 1, end - pos, _MOST_TOPICS, most_rows)
    for _ in range(count - 1):
        if version >= 13:
            key = bytes(body[pos : pos + 16])
            pos += 16
        else:
            length, pos = read_unsigned(body, pos)
            if not length or length > MOST_STRING_BYTES + 1:
                raise Malformed(f"Produce names no topic, but {length - 1} bytes")
            key = bytes(body[pos : pos + length - 1])
            pos += length - 1
        partitions, pos = read_unsigned(body, pos)
        rows = []
        for _ in range(_count(partitions - 1, end - pos, left, most_rows)):
            row, pos = _flexible_partition(body, pos)
            rows.append(row)
        left -= partitions - 1
        most_rows -= partitions - 1
        topics.append(ProduceTopic(key, rows))
        pos = pos + 1 if body[pos] == 0 else _tags(body, pos)[1]
    pos = pos + 1 if body[pos] == 0 else _tags(body, pos)[1]
    return Produce(transactional_id, acks, timeout_ms, topics), pos


def _flexible_partition(body: memoryview, pos: int) -> tuple[ProducePartition, int]:
    (index,) = _I32.unpack_from(body, pos)
    length, pos = read_unsigned(body, pos + 4)
    records = None
    if length:
        records = body[pos : pos + length - 1]
        pos += length - 1
    shard_epoch = -1
    if body[pos] == 0:
        pos += 1
    else:
        shard_epoch, pos = _tags(body, pos)
    return ProducePartition(index, records, shard_epoch), pos


def _tags(body: memoryview, pos: int) -> tuple[int, int]:
    """Steps over a tag section; returns the shard epoch in it (or -1) and the next position."""
    shard_epoch = -1
    count, pos = read_unsigned(body, pos)
    for _ in range(count):
        tag, pos = read_unsigned(body, pos)
        size, pos = read_unsigned(body, pos)
        if tag == SHARD_EPOCH_TAG and size == 4:
            (shard_epoch,) = _I32.unpack_from(body, pos)
        pos += size
        if pos > len(body):
            raise Malformed("tag section runs past the frame")
    return shard_epoch, pos


# (index, error_code, base_offset, log_append_time_ms, log_start_offset)
PartitionAnswer = tuple[int, int, int, int, int]
_TAIL_V8 = b"\x00\x00\x00\x00\xff\xff"  # no record errors, null message
_TAIL_V9 = b"\x01\x00\x00"  # the same, compact, and no tags


def encode_produce_answer(
    version: int, correlation_id: int, topics: Sequence[tuple[bytes, Sequence[PartitionAnswer]]]
) -> bytes:
    """The response frame without messages, record errors or leader hints (those go through the codec)."""
    pack = _PARTITION.pack
    if version >= 9:
        parts = [b"\x00", unsigned(len(topics) + 1)]
        for key, rows in topics:
            answers = [pack(*row) + _TAIL_V9 for row in rows]
            parts.append(key if version >= 13 else unsigned(len(key) + 1) + key)
            parts.append(unsigned(len(answers) + 1))
            parts += answers
            parts.append(b"\x00")
        parts.append(b"\x00\x00\x00\x00\x00")
    else:
        parts = [_I32.pack(len(topics))]
        tail = _TAIL_V8 if version >= 8 else b""
        for key, rows in topics:
            if version >= 5:
                answers = [pack(*row) + tail for row in rows]
            else:
                answers = [_PARTITION_V3.pack(*row[:4]) for row in rows]
            parts.append(_I16.pack(len(key)) + key + _I32.pack(len(answers)))
            parts += answers
        parts.append(b"\x00\x00\x00\x00")
    body = b"".join(parts)
    return _HEAD.pack(len(body) + 4, correlation_id) + body


def with_throttle(version: int, frame: bytes, throttle_time_ms: int) -> bytes:
    """A frame of encode_produce_answer with its throttle_time_ms set; only the tags of v9 and later come behind it."""
    end = len(frame) - (1 if version >= 9 else 0)
    return b"".join((frame[: end - 4], _I32.pack(throttle_time_ms), frame[end:]))


def encode_internal_produce(
    version: int,
    correlation_id: int,
    client_id: str,
    topic_id: bytes,
    partition: int,
    records: Bytes,
    *,
    shard_epoch: int,
    timeout_ms: int,
) -> bytes:
    """A coordinator's append as a whole request frame: acks=all, one partition by topic id, shard epoch beside it."""
    if version < 13:
        raise ValueError("an internal produce addresses its topic by id (v13)")
    name = client_id.encode()
    head = b"".join(
        (
            b"\x00\x00",
            _I16.pack(version),
            _I32.pack(correlation_id),
            _I16.pack(len(name)),
            name,
            b"\x00",
            b"\x00",
            _ACKS_TIMEOUT.pack(-1, timeout_ms),
            b"\x02",
            topic_id,
            b"\x02",
            _I32.pack(partition),
            unsigned(len(records) + 1),
        )
    )
    tail = b"\x01" + unsigned(SHARD_EPOCH_TAG) + b"\x04" + _I32.pack(shard_epoch) + b"\x00\x00"
    return b"".join((_I32.pack(len(head) + len(records) + len(tail)), head, bytes(records), tail))

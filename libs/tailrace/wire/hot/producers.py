"""DescribeProducers' answer by hand (KIP-664, v0): one partition may have a hundred thousand producers.

The schema-driven codec takes 27 microseconds for each of them, in which a broker's or a gateway's loop would do nothing
else. Here a producer is a row of fixed size: rows are packed some at a time, and read only where they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct, error
from typing import Final, NamedTuple

from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.malformed import Malformed
from tailrace.wire.varint import read_unsigned, unsigned

ROW: Final = Struct(">qiiqiqB")  # a DescribedProducer's fields and the tag section, which is empty
NO_SEQUENCE: Final = -1
_PARTITION: Final = Struct(">ih")
_NO_TAGS: Final = b"\x00"


class DescribedProducer(NamedTuple):
    """What a log knows of one producer; -1 where there is no sequence, no coordinator or no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int  # milliseconds
    coordinator_epoch: int
    current_txn_start_offset: int


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """One partition's answer; `rows` holds a ROW for each producer."""

    partition_index: int
    error_code: int
    error_message: str | None = None
    rows: bytes | bytearray | memoryview = b""

    def __len__(self) -> int:
        return len(self.rows) // ROW.size

    def producers(self) -> Iterator[DescribedProducer]:
        """The producers, in no order. Raises Malformed for rows with tags, which no version has."""
        for *fields, tags in ROW.iter_unpack(self.rows):
            if tags:
                raise Malformed("a producer with tags")
            yield DescribedProducer(*fields)


def most_telling_first(producer: DescribedProducer) -> tuple[bool, int]:
    """Sorts for who looks on: open transactions first, the oldest first; then who was heard last."""
    began = producer.current_txn_start_offset
    return (began < 0, -producer.last_timestamp if began < 0 else began)


def pack(producers: Iterable[DescribedProducer]) -> bytes:
    """Their rows."""
    return b"".join([ROW.pack(*producer, 0) for producer in producers])


def encode_describe_producers(topics: Sequence[tuple[str, Sequence[PartitionProducers]]]) -> EncodeBuffer:
    """The response's body, never throttled."""
    out = EncodeBuffer()
    out += bytes(4)
    out += unsigned(len(topics) + 1)
    for name, partitions in topics:
        out += _text(name)
        out += unsigned(len(partitions) + 1)
        for found in partitions:
            message = _NO_TAGS if found.error_message is None else _text(found.error_message)
            out += _PARTITION.pack(found.partition_index, found.error_code) + message + unsigned(len(found) + 1)
            if found.rows:
                out += found.rows
            out += _NO_TAGS
        out += _NO_TAGS
    out += _NO_TAGS
    return out


def _text(text: str) -> bytes:
    encoded = text.encode()
    return unsigned(len(encoded) + 1) + encoded


def decode_describe_producers(body: memoryview) -> list[tuple[str, list[PartitionProducers]]]:
    """The topics of a response's body; rows stay where they lie. Raises Malformed."""
    try:
        topics, pos = _topics(body)
    except (IndexError, error, UnicodeDecodeError) as wrong:
        raise Malformed(f"DescribeProducers: {wrong}") from wrong
    if pos != len(body):
        raise Malformed(f"body has {len(body)} bytes, its fields {pos}")
    return topics


def _topics(body: memoryview) -> tuple[list[tuple[str, list[PartitionProducers]]], int]:
    count, pos = _count(body, 4)
    topics = []
    for _ in range(count):
        name, pos = _string(body, pos)
        rows, pos = _count(body, pos)
        partitions = []
        for _ in range(rows):
            found, pos = _partition(body, pos)
            partitions.append(found)
        topics.append((name or "", partitions))
        pos = _end(body, pos)
    return topics, _end(body, pos)


def _partition(body: memoryview, pos: int) -> tuple[PartitionProducers, int]:
    index, code = _PARTITION.unpack_from(body, pos)
    message, pos = _string(body, pos + _PARTITION.size)
    count, pos = _count(body, pos)
    end = pos + count * ROW.size
    if end > len(body):
        raise Malformed(f"{count} producers, {len(body) - pos} bytes are left")
    return PartitionProducers(index, code, message, body[pos:end]), _end(body, end)


def _count(body: memoryview, pos: int) -> tuple[int, int]:
    count, pos = read_unsigned(body, pos)
    if not 0 < count <= len(body) - pos + 1:  # everything counted takes a byte or more
        raise Malformed(f"count {count - 1}, {len(body) - pos} bytes are left")
    return count - 1, pos


def _string(body: memoryview, pos: int) -> tuple[str | None, int]:
    size, pos = read_unsigned(body, pos)
    end = pos + max(size - 1, 0)
    if end > len(body):
        raise Malformed(f"a string of {size - 1} bytes, {len(body) - pos} are left")
    return (str(body[pos:end], "utf-8") if size else None), end


def _end(body: memoryview, pos: int) -> int:
    if body[pos]:
        raise Malformed("tags, which no version has")
    return pos + 1

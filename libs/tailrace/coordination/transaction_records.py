"""What `__transaction_state` holds: Apache Kafka's TransactionLogKey 0 and TransactionLogValue 0 and 1.

Version 1 has what KIP-890 needs, in tagged fields; it is written where the feature transaction.version is 1 or more.
LastProducerEpoch is of KAFKA-20357; releases of Apache Kafka before that pass over it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tailrace.coordination.fields import BadRecord, FieldReader
from tailrace.wire.varint import unsigned

_NEWEST: Final = 1  # and the first flexible one
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_TRANSACTION_VERSION = range(3)  # tags
_NEXT_PRODUCER_EPOCH, _LAST_PRODUCER_EPOCH = 3, 4
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES: Final = struct.Struct(">qq")
_FIXED_BYTES: Final = 128  # of a record, with all tags
_TOPIC_BYTES: Final = 8  # two lengths, and the end of the structure


class Status(StrEnum):
    """How far a transaction is, in the order of Kafka's numbers."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES: Final = tuple(Status)
_NUMBERS: Final = {status: number for number, status in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transactional id's producer and how far its transaction is; start_timestamp_ms -1: none was begun.

    An id of -1: none. In version 0 of the value what has a tag in version 1 is lost with a load.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: Status
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    last_update_timestamp_ms: int
    start_timestamp_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1  # takes the place of the id, whose epochs are used up, when the transaction is complete
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    last_producer_epoch: int = -1
    value_version: int = _NEWEST


@dataclass(frozen=True, slots=True)
class TransactionStateRemoved:
    """The tombstone of a transactional id."""

    transactional_id: str


TransactionRecord = TransactionState | TransactionStateRemoved


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Returns key and value, value None for a tombstone."""
    name = record.transactional_id.encode()
    key = _INT16.pack(0) + _INT16.pack(len(name)) + name
    return key, None if isinstance(record, TransactionStateRemoved) else _value(record)


def _value(record: TransactionState) -> bytes:
    flexible = record.value_version >= _NEWEST
    parts = [
        _HEAD.pack(
            record.value_version,
            record.producer_id,
            record.producer_epoch,
            record.timeout_ms,
            _NUMBERS[record.state],
        ),
        # Without a transaction there is no list, as in Kafka: null, and not an empty one.
        _count(len(record.partitions) or (-1 if record.state is Status.EMPTY else 0), flexible),
    ]
    for topic, indexes in record.partitions:
        name = topic.encode()
        parts += (
            unsigned(len(name) + 1) if flexible else _INT16.pack(len(name)),
            name,
            _count(len(indexes), flexible),
            struct.pack(f">{len(indexes)}i", *indexes),
            b"\0" if flexible else b"",
        )
    parts.append(_TIMES.pack(record.last_update_timestamp_ms, record.start_timestamp_ms))
    if flexible:
        parts.append(_tags(record))
    return b"".join(parts)


def _count(rows: int, flexible: bool) -> bytes:
    return unsigned(rows + 1) if flexible else _INT32.pack(rows)


def _tags(record: TransactionState) -> bytes:
    tags = [
        (_PREVIOUS_PRODUCER_ID, _INT64, record.previous_producer_id, -1),
        (_NEXT_PRODUCER_ID, _INT64, record.next_producer_id, -1),
        (_CLIENT_TRANSACTION_VERSION, _INT16, record.client_transaction_version, 0),
        (_NEXT_PRODUCER_EPOCH, _INT16, record.next_producer_epoch, -1),
        (_LAST_PRODUCER_EPOCH, _INT16, record.last_producer_epoch, -1),
    ]
    written = [(tag, layout.pack(value)) for tag, layout, value, default in tags if value != default]
    return unsigned(len(written)) + b"".join(unsigned(tag) + unsigned(len(raw)) + raw for tag, raw in written)


def most_bytes(record: TransactionState) -> int:
    """An upper bound of the record's size in a batch."""
    topics = sum(len(topic.encode()) + _TOPIC_BYTES + 4 * len(indexes) for topic, indexes in record.partitions)
    return len(record.transactional_id.encode()) + topics + _FIXED_BYTES


def decode(key: bytes, value: bytes | None) -> TransactionRecord:
    """Raises BadRecord."""
    reader = FieldReader(key)
    if version := reader.int16():
        raise BadRecord(f"key version {version}, highest known 0")
    transactional_id = reader.string()
    if value is None:
        return TransactionStateRemoved(transactional_id)
    reader = FieldReader(value)
    version = reader.version(_NEWEST, flexible_from=_NEWEST)
    producer_id, producer_epoch, timeout_ms, state = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    if state >= len(STATES):
        raise BadRecord(f"state {state}")
    partitions = tuple(reader.array(lambda: _partitions(reader)))
    last_update_ms, start_ms = reader.int64(), reader.int64()
    tags = reader.tags() if reader.flexible else {}
    return TransactionState(
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        STATES[state],
        partitions,
        last_update_ms,
        start_ms,
        previous_producer_id=_tag(tags, _PREVIOUS_PRODUCER_ID, _INT64, -1),
        next_producer_id=_tag(tags, _NEXT_PRODUCER_ID, _INT64, -1),
        client_transaction_version=_tag(tags, _CLIENT_TRANSACTION_VERSION, _INT16, 0),
        next_producer_epoch=_tag(tags, _NEXT_PRODUCER_EPOCH, _INT16, -1),
        last_producer_epoch=_tag(tags, _LAST_PRODUCER_EPOCH, _INT16, -1),
        value_version=version,
    )


def _tag(tags: dict[int, bytes], tag: int, layout: struct.Struct, default: int) -> int:
    raw = tags.get(tag)
    if raw is None:
        return default
    if len(raw) != layout.size:
        raise BadRecord(f"tag {tag} of {len(raw)} bytes")
    return int(layout.unpack(raw)[0])


def _partitions(reader: FieldReader) -> tuple[str, tuple[int, ...]]:
    topic, indexes = reader.string(), tuple(reader.array(reader.int32))
    reader.end_of_struct()
    return topic, indexes

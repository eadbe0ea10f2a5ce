"""What `__consumer_offsets` holds: OffsetCommit and GroupMetadata records in Kafka's own key and value schemas.

Keys are never flexible. Values are written as Kafka 4.3 writes them: OffsetCommitValue 4 with the topic's id (1 with an
expire timestamp, from OffsetCommit v2-4 with a retention time), GroupMetadataValue 3; versions 0 to 4 are read.

Records of consumer groups (KIP-848) are in `consumer_group_records.py`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tailrace.coordination import consumer_group_records
from tailrace.coordination.consumer_group_records import ConsumerGroupRecord, ConsumerGroupRecordRemoved
from tailrace.coordination.fields import BadRecord, FieldReader
from tailrace.wire.varint import unsigned

OFFSET_COMMIT_LEGACY_KEY = 0
OFFSET_COMMIT_KEY = 1
GROUP_METADATA_KEY = 2

_FLEXIBLE_FROM = 4
_ZERO_ID = UUID(int=0)
_TOPIC_ID_TAG = 0

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MEMBER = struct.Struct(">iii")  # timeouts, and the size of the subscription


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """One committed offset; leader_epoch -1: unknown; expire_timestamp_ms -1: the broker's retention counts."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class OffsetRemoved:
    """The tombstone of a committed offset."""

    group_id: str
    topic: str
    partition: int


class MemberMetadata(NamedTuple):
    """One member as the log remembers it; rebalance_timeout_ms -1: its session timeout."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """One generation of a classic group; no members: the group is empty. value: as `encoded` found it."""

    group_id: str
    protocol_type: str
    generation_id: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...] = ()
    value: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    """The tombstone of a classic group, which removes one of the consumer protocol, too, as in Kafka."""

    group_id: str


GroupRecord: TypeAlias = OffsetCommitted | OffsetRemoved | GroupMetadata | ConsumerGroupRecord | GroupRemoved


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Returns key and value, value None for tombstones."""
    match record:
        case OffsetCommitted():
            return _offset_key(record), _offset_value(record)
        case OffsetRemoved():
            return _offset_key(record), None
        case GroupMetadata():
            return _group_key(record.group_id), record.value or _group_value(record)
        case GroupRemoved():
            return _group_key(record.group_id), None
        case _:
            return consumer_group_records.encode(record)


def encoded(record: GroupMetadata) -> GroupMetadata:
    """Returns the record with its value: of thousands of members it takes some milliseconds, and is made once."""
    return replace(record, value=_group_value(record))


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Returns the record, None for a key type we do not keep (KIP-915: those are passed over). Raises BadRecord."""
    reader = FieldReader(key)
    kind = reader.int16()
    if kind in (OFFSET_COMMIT_LEGACY_KEY, OFFSET_COMMIT_KEY):
        group_id, topic, partition = reader.string(), reader.string(), reader.int32()
        if value is None:
            return OffsetRemoved(group_id, topic, partition)
        return _read_offset(FieldReader(value), group_id, topic, partition)
    if kind == GROUP_METADATA_KEY:
        group_id = reader.string()
        if value is None:
            return GroupRemoved(group_id)
        return _read_group(FieldReader(value), group_id)
    if kind in consumer_group_records.KEY_TYPES:
        consumer_key = consumer_group_records.read_key(kind, reader)
        if value is None:
            return ConsumerGroupRecordRemoved(consumer_key)
        return consumer_group_records.read_value(consumer_key, value)
    return None


def _offset_key(record: OffsetCommitted | OffsetRemoved) -> bytes:
    return b"".join(
        (
            _INT16.pack(OFFSET_COMMIT_KEY),
            _string(record.group_id),
            _string(record.topic),
            _INT32.pack(record.partition),
        )
    )


def _offset_value(record: OffsetCommitted) -> bytes:
    if record.expire_timestamp_ms != -1:
        return b"".join(
            (
                _INT16.pack(1),
                _INT64.pack(record.offset),
                _string(record.metadata),
                _INT64.pack(record.commit_timestamp_ms),
                _INT64.pack(record.expire_timestamp_ms),
            )
        )
    metadata = record.metadata.encode()
    return b"".join(
        (
            _INT16.pack(4),
            _INT64.pack(record.offset),
            _INT32.pack(record.leader_epoch),
            unsigned(len(metadata) + 1),
            metadata,
            _INT64.pack(record.commit_timestamp_ms),
            b"\0" if record.topic_id is None else bytes((1, _TOPIC_ID_TAG, 16)) + record.topic_id.bytes,
        )
    )


def _group_key(group_id: str) -> bytes:
    return _INT16.pack(GROUP_METADATA_KEY) + _string(group_id)


def _group_value(record: GroupMetadata) -> bytes:
    parts = [
        _INT16.pack(3),
        _string(record.protocol_type),
        _INT32.pack(record.generation_id),
        _string(record.protocol),
        _string(record.leader),
        _INT64.pack(record.current_state_timestamp_ms),
        _INT32.pack(len(record.members)),
    ]
    last_client, client = None, b""
    for member_id, instance_id, client_id, host, rebalance_ms, session_ms, subscription, assignment in record.members:
        if (client_id, host) != last_client:  # of most members it is the same
            last_client, client = (client_id, host), _string(client_id) + _string(host)
        parts += (
            _string(member_id),
            b"\xff\xff" if instance_id is None else _string(instance_id),
            client,
            _MEMBER.pack(rebalance_ms, session_ms, len(subscription)),
            subscription,
            _INT32.pack(len(assignment)),
            assignment,
        )
    return b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def _read_offset(reader: FieldReader, group_id: str, topic: str, partition: int) -> OffsetCommitted:
    version = reader.version(4, flexible_from=_FLEXIBLE_FROM)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    raw_id = reader.tags().get(_TOPIC_ID_TAG) if version >= _FLEXIBLE_FROM else None
    if raw_id is not None and len(raw_id) != 16:
        raise BadRecord("topic id of other than 16 bytes")
    topic_id = None if raw_id is None or raw_id == _ZERO_ID.bytes else UUID(bytes=raw_id)
    return OffsetCommitted(
        group_id, topic, partition, offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id
    )


def _read_group(reader: FieldReader, group_id: str) -> GroupMetadata:
    version = reader.version(4, flexible_from=_FLEXIBLE_FROM)
    protocol_type = reader.string()
    generation_id = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    timestamp_ms = reader.int64() if version >= 2 else -1
    members = tuple(_read_member(reader, version) for _ in range(reader.count()))
    reader.end_of_struct()
    return GroupMetadata(group_id, protocol_type, generation_id, protocol, leader, timestamp_ms, members)


def _read_member(reader: FieldReader, version: int) -> MemberMetadata:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.byte_string(), reader.byte_string()
    reader.end_of_struct()
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )

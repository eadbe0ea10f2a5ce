"""Records of consumer groups (KIP-848) in Kafka's own key and value schemas, as Apache Kafka 4.4 writes them.

Keys are never flexible, values are version 0 and flexible.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias
from uuid import UUID

from tailrace.coordination.fields import (
    BadRecord,
    FieldReader,
    compact_array,
    compact_bytes,
    compact_string,
    key_string,
    tagged,
)
from tailrace.wire.varint import unsigned

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_VERSION: Final = _INT16.pack(0)
_NO_TAGS: Final = b"\0"


class ConsumerGroupKey(NamedTuple):
    """The key of a record; name: the member id or the regular expression, None where there is one for each group."""

    key_type: int
    group_id: str
    name: str | None = None

    def encode(self) -> bytes:
        text = key_string(self.group_id) + (b"" if self.name is None else key_string(self.name))
        return _INT16.pack(self.key_type) + text


class TopicPartitions(NamedTuple):
    """Partitions of one topic; assignment_epochs: the epoch in which the member got each, empty where not known."""

    topic_id: UUID
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = ()


class ClassicProtocol(NamedTuple):
    """A protocol of a member that uses JoinGroup in a consumer group."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """The metadata of a member that uses JoinGroup in a consumer group."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class PartitionRacks(NamedTuple):
    """The racks of the replicas of one partition."""

    partition: int
    racks: tuple[str, ...]


class TopicMetadata(NamedTuple):
    """A subscribed topic as releases before Apache Kafka 4.1 kept it."""

    topic_id: UUID
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The group itself; metadata_hash: of the topics it subscribes to (KIP-1101)."""

    key_type: ClassVar[int] = 3

    group_id: str
    epoch: int
    metadata_hash: int = 0

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadata:
    """The subscribed topics of the group. Releases from Apache Kafka 4.1 on write its tombstone alone."""

    key_type: ClassVar[int] = 4

    group_id: str
    topics: tuple[TopicMetadata, ...]

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """A member and its subscription."""

    key_type: ClassVar[int] = 5

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadata:
    """The epoch of the target assignment; assignment_timestamp: when it was computed, 0 where that is not known."""

    key_type: ClassVar[int] = 6

    group_id: str
    assignment_epoch: int
    assignment_timestamp: int = 0

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMember:
    """The target assignment of one member."""

    key_type: ClassVar[int] = 7

    group_id: str
    member_id: str
    topic_partitions: tuple[TopicPartitions, ...]

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignment:
    """What a member owns; state: the number of Kafka's MemberState."""

    key_type: ClassVar[int] = 8

    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpression:
    """The topics that a regular expression of a subscription resolves to, at a version of the metadata image."""

    key_type: ClassVar[int] = 16

    group_id: str
    regular_expression: str
    topics: tuple[str, ...]
    version: int
    timestamp: int

    @property
    def key(self) -> ConsumerGroupKey:
        return ConsumerGroupKey(self.key_type, self.group_id, self.regular_expression)


@dataclass(frozen=True, slots=True)
class ConsumerGroupRecordRemoved:
    """The tombstone of one record."""

    key: ConsumerGroupKey

    @property
    def group_id(self) -> str:
        return self.key.group_id


ConsumerGroupValue: TypeAlias = (
    ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
    | ConsumerGroupRegularExpression
)
ConsumerGroupRecord: TypeAlias = ConsumerGroupValue | ConsumerGroupRecordRemoved


def encode(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    """Returns key and value, value None for tombstones."""
    key = record.key.encode()
    return key, None if isinstance(record, ConsumerGroupRecordRemoved) else _VERSION + _value(record)


def _value(record: ConsumerGroupValue) -> bytes:
    match record:
        case ConsumerGroupMetadata(_, epoch, metadata_hash):
            return _INT32.pack(epoch) + tagged({0: _INT64.pack(metadata_hash)} if metadata_hash else {})
        case ConsumerGroupPartitionMetadata(_, topics):
            return compact_array(map(_topic_metadata, topics)) + _NO_TAGS
        case ConsumerGroupMemberMetadata():
            return _member_metadata(record)
        case ConsumerGroupTargetAssignmentMetadata(_, epoch, timestamp):
            return _INT32.pack(epoch) + tagged({0: _INT64.pack(timestamp)} if timestamp else {})
        case ConsumerGroupTargetAssignmentMember(_, _, topic_partitions):
            return _assignment(topic_partitions) + _NO_TAGS
        case ConsumerGroupCurrentMemberAssignment():
            return b"".join(
                (
                    _INT32.pack(record.member_epoch),
                    _INT32.pack(record.previous_member_epoch),
                    bytes((record.state,)),
                    _assignment(record.assigned_partitions),
                    _assignment(record.partitions_pending_revocation),
                    _NO_TAGS,
                )
            )
        case ConsumerGroupRegularExpression():
            names = compact_array(map(compact_string, record.topics))
            return names + _INT64.pack(record.version) + _INT64.pack(record.timestamp) + _NO_TAGS


def _topic_metadata(topic: TopicMetadata) -> bytes:
    racks = (
        _INT32.pack(each.partition) + compact_array(map(compact_string, each.racks)) + _NO_TAGS
        for each in topic.partition_metadata
    )
    head = topic.topic_id.bytes + compact_string(topic.topic_name) + _INT32.pack(topic.num_partitions)
    return head + compact_array(racks) + _NO_TAGS


def _member_metadata(record: ConsumerGroupMemberMetadata) -> bytes:
    classic = record.classic_member_metadata
    return b"".join(
        (
            compact_string(record.instance_id),
            compact_string(record.rack_id),
            compact_string(record.client_id),
            compact_string(record.client_host),
            compact_array(map(compact_string, record.subscribed_topic_names)),
            compact_string(record.subscribed_topic_regex),
            _INT32.pack(record.rebalance_timeout_ms),
            compact_string(record.server_assignor),
            tagged({} if classic is None else {0: b"\1" + _classic_member(classic)}),
        )
    )


def _classic_member(member: ClassicMemberMetadata) -> bytes:
    protocols = (compact_string(name) + compact_bytes(metadata) + _NO_TAGS for name, metadata in member[1])
    return _INT32.pack(member.session_timeout_ms) + compact_array(protocols) + _NO_TAGS


def _assignment(topic_partitions: Iterable[TopicPartitions]) -> bytes:
    return compact_array(
        topic_id.bytes + _int32s(partitions) + tagged({} if epochs == () else {0: _int32s(epochs)})
        for topic_id, partitions, epochs in topic_partitions
    )


def _int32s(numbers: Sequence[int] | None) -> bytes:
    return b"\0" if numbers is None else unsigned(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


def read_key(key_type: int, reader: FieldReader) -> ConsumerGroupKey:
    """Returns the key of one of KEY_TYPES, behind its type. Raises BadRecord."""
    group_id = reader.string()
    return ConsumerGroupKey(key_type, group_id, reader.string() if key_type in _NAMED else None)


def read_value(key: ConsumerGroupKey, value: bytes) -> ConsumerGroupValue:
    """Returns the record. Raises BadRecord."""
    reader = FieldReader(value)
    reader.version(0, flexible_from=0)
    return _READ[key.key_type](key, reader)


def _read_metadata(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupMetadata:
    return ConsumerGroupMetadata(key.group_id, reader.int32(), _tagged_int64(reader))


def _read_partition_metadata(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupPartitionMetadata:
    return ConsumerGroupPartitionMetadata(key.group_id, tuple(reader.array(lambda: _read_topic_metadata(reader))))


def _read_topic_metadata(reader: FieldReader) -> TopicMetadata:
    topic_id, name, count = UUID(bytes=reader.take(16)), reader.string(), reader.int32()
    racks = tuple(reader.array(lambda: _read_racks(reader)))
    reader.end_of_struct()
    return TopicMetadata(topic_id, name, count, racks)


def _read_racks(reader: FieldReader) -> PartitionRacks:
    racks = PartitionRacks(reader.int32(), tuple(reader.array(reader.string)))
    reader.end_of_struct()
    return racks


def _read_member(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupMemberMetadata:
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    names, regex = tuple(reader.array(reader.string)), reader.nullable_string()
    rebalance_timeout_ms, assignor = reader.int32(), reader.nullable_string()
    classic = reader.tags().get(0)
    return ConsumerGroupMemberMetadata(
        key.group_id,
        key.name or "",
        instance_id,
        rack_id,
        client_id,
        client_host,
        names,
        regex,
        rebalance_timeout_ms,
        assignor,
        None if classic is None else _read_classic_member(classic),
    )


def _read_classic_member(raw: bytes) -> ClassicMemberMetadata | None:
    reader = _flexible(raw)
    if reader.int8() != 1:  # null
        return None
    session_timeout_ms = reader.int32()
    return ClassicMemberMetadata(session_timeout_ms, tuple(reader.array(lambda: _read_protocol(reader))))


def _read_protocol(reader: FieldReader) -> ClassicProtocol:
    protocol = ClassicProtocol(reader.string(), reader.byte_string())
    reader.end_of_struct()
    return protocol


def _read_target_metadata(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupTargetAssignmentMetadata:
    return ConsumerGroupTargetAssignmentMetadata(key.group_id, reader.int32(), _tagged_int64(reader))


def _read_target_member(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupTargetAssignmentMember:
    return ConsumerGroupTargetAssignmentMember(key.group_id, key.name or "", _read_assignment(reader))


def _read_current(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupCurrentMemberAssignment:
    epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    assigned, pending_revocation = _read_assignment(reader), _read_assignment(reader)
    return ConsumerGroupCurrentMemberAssignment(
        key.group_id, key.name or "", epoch, previous_epoch, state, assigned, pending_revocation
    )


def _read_expression(key: ConsumerGroupKey, reader: FieldReader) -> ConsumerGroupRegularExpression:
    topics = tuple(reader.array(reader.string))
    return ConsumerGroupRegularExpression(key.group_id, key.name or "", topics, reader.int64(), reader.int64())


def _read_assignment(reader: FieldReader) -> tuple[TopicPartitions, ...]:
    return tuple(reader.array(lambda: _read_topic_partitions(reader)))


def _read_topic_partitions(reader: FieldReader) -> TopicPartitions:
    topic_id, partitions = UUID(bytes=reader.take(16)), tuple(reader.array(reader.int32))
    raw = reader.tags().get(0)
    if raw is None:
        return TopicPartitions(topic_id, partitions)
    epochs = _flexible(raw)
    numbers = None if raw == b"\0" else tuple(epochs.array(epochs.int32))
    if numbers and len(numbers) != len(partitions):
        raise BadRecord(f"{len(numbers)} epochs of {len(partitions)} partitions")
    return TopicPartitions(topic_id, partitions, numbers)


def _tagged_int64(reader: FieldReader) -> int:
    raw = reader.tags().get(0)
    return 0 if raw is None else FieldReader(raw).int64()


def _flexible(raw: bytes) -> FieldReader:
    reader = FieldReader(raw)
    reader.flexible = True
    return reader


_READ: Final[dict[int, Callable[[ConsumerGroupKey, FieldReader], ConsumerGroupValue]]] = {
    ConsumerGroupMetadata.key_type: _read_metadata,
    ConsumerGroupPartitionMetadata.key_type: _read_partition_metadata,
    ConsumerGroupMemberMetadata.key_type: _read_member,
    ConsumerGroupTargetAssignmentMetadata.key_type: _read_target_metadata,
    ConsumerGroupTargetAssignmentMember.key_type: _read_target_member,
    ConsumerGroupCurrentMemberAssignment.key_type: _read_current,
    ConsumerGroupRegularExpression.key_type: _read_expression,
}
KEY_TYPES: Final = frozenset(_READ)
_NAMED: Final = frozenset(
    {
        ConsumerGroupMemberMetadata.key_type,
        ConsumerGroupTargetAssignmentMember.key_type,
        ConsumerGroupCurrentMemberAssignment.key_type,
        ConsumerGroupRegularExpression.key_type,
    }
)

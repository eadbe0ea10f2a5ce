"""The records of internal topics in words: `__consumer_offsets`, `__transaction_state` and `__cluster_metadata`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from struct import Struct
from typing import Any, Final
from uuid import UUID

from tailrace.config.definition import HIDDEN
from tailrace.coordination import group_records, transaction_records
from tailrace.coordination.consumer_group_records import ConsumerGroupRecordRemoved
from tailrace.coordination.fields import BadRecord
from tailrace.kafka.ids import format_uuid
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata import codec
from tailrace.records.record import Record

Row = dict[str, Any]
_INT16: Final = Struct(">h")

# Key types of KIP-848, KIP-932 and KIP-1071 groups; each key begins with the group id.
_GROUP_KEYS: Final = {
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
_REGULAR_EXPRESSION: Final = 16
_SCRAM_CREDENTIAL: Final = bytes((codec.FRAME_VERSION, 11))  # how its bytes begin
# Of the metadata log by api key: what Kafka writes and we have other versions of, or no place for.
_METADATA_NAMES: Final = {
    0: "RegisterBrokerRecord",
    3: "PartitionRecord",
    5: "PartitionChangeRecord",
    10: "DelegationTokenRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    21: "ZkMigrationStateRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}


def decoder_for(topic: str) -> Callable[[Record], Row] | None:
    """What puts this topic's records into words; None for a topic of users."""
    known = {
        GROUP_METADATA_TOPIC: offsets_record,
        TRANSACTION_STATE_TOPIC: transactions_record,
        CLUSTER_METADATA_TOPIC: metadata_record,
    }
    return known.get(topic)


def offsets_record(record: Record) -> Row:
    """A record of `__consumer_offsets`: a commit, a group, or the name of a share or streams group's record."""
    key = record.key or b""
    try:
        found = group_records.decode(key, record.value)
        if found is not None and not isinstance(found, ConsumerGroupRecordRemoved):
            return {"type": type(found).__name__, **_plain(asdict(found))}
        kind = _INT16.unpack_from(key)[0]
        row: Row = {"type": _GROUP_KEYS.get(kind, f"key type {kind}")}
        names = ("group_id", "regular_expression" if kind == _REGULAR_EXPRESSION else "member_id")
        row |= zip(names, _strings(key), strict=False)
        if record.value is None:
            return {**row, "removed": True}
        return {**row, "value_bytes": len(record.value)}
    except (BadRecord, UnicodeDecodeError) as error:
        return {"type": "damaged", "error": str(error)}


def transactions_record(record: Record) -> Row:
    """A record of `__transaction_state`: where a transactional id's transaction is."""
    try:
        found = transaction_records.decode(record.key or b"", record.value)
    except BadRecord as error:
        return {"type": "damaged", "error": str(error)}
    row = _plain(asdict(found))
    row.pop("last_producer_epoch", None)  # of a coordinator's memory, not of the record
    return {"type": type(found).__name__, **row}


def _strings(key: bytes) -> Iterator[str]:
    """The strings of a key after its type."""
    at = _INT16.size
    while at + _INT16.size <= len(key):
        end = at + _INT16.size + _INT16.unpack_from(key, at)[0]
        yield key[at + _INT16.size : end].decode()
        at = max(end, at + _INT16.size)


def metadata_record(record: Record) -> Row:
    """A record of `__cluster_metadata`; keys that check passwords are hidden."""
    value = record.value or b""
    try:
        found = codec.decode(value)
    except codec.MalformedRecord as error:
        if value[:2] == _SCRAM_CREDENTIAL:
            return {"type": "unknown", "error": str(error), "bytes": HIDDEN}
        name = _METADATA_NAMES.get(value[1]) if value[:1] == bytes((codec.FRAME_VERSION,)) and len(value) > 1 else None
        if name is not None:
            return {"type": name, "bytes": value.hex()}
        return {"type": "unknown", "error": str(error), "bytes": value.hex()}
    secrets = dict.fromkeys((field.name for field in fields(found) if not field.repr), HIDDEN)
    return {"type": type(found).__name__, **_plain(asdict(found)), **secrets}


def _plain(value: Any) -> Any:
    """The value with what JSON lacks as text."""
    match value:
        case UUID():
            return format_uuid(value)
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return _plain(value._asdict())
        case tuple() | list():
            return [_plain(item) for item in value]
    return value

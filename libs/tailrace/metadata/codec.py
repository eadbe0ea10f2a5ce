"""Metadata records as bytes, in Kafka's framing: unsigned varints frame version (1), api key, version, then the fields.

Every record is "flexible" (KIP-482): compact strings and arrays, tagged fields at the end. One version of each is
written and read, Kafka 4.3's newest; a tag nobody knows is skipped, an unknown record or version is malformed.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

from tailrace.metadata import records as r
from tailrace.wire.malformed import Malformed
from tailrace.wire.varint import read_unsigned, write_unsigned

FRAME_VERSION: Final = 1


class MalformedRecord(ValueError):
    """Bytes that are no metadata record of ours."""


class _Reader:
    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise MalformedRecord(f"{count} bytes wanted at {self.position} of {len(self.data)}")
        chunk = self.data[self.position : end]
        self.position = end
        return chunk

    def uvarint(self) -> int:
        if self.position < len(self.data) and (value := self.data[self.position]) < 0x80:
            self.position += 1
            return value
        try:
            value, self.position = read_unsigned(self.data, self.position)
        except (IndexError, Malformed) as wrong:
            raise MalformedRecord(f"varint at {self.position} of {len(self.data)}") from wrong
        return value


@dataclass(frozen=True, slots=True)
class _Type:
    write: Callable[[bytearray, Any], None]
    read: Callable[[_Reader], Any]


def _number(layout: str) -> _Type:
    packed = struct.Struct(">" + layout)

    def write(out: bytearray, value: Any) -> None:
        out += packed.pack(value)

    return _Type(write, lambda reader: packed.unpack(reader.take(packed.size))[0])


def _write_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
        return
    data = value.encode()
    write_unsigned(out, len(data) + 1)
    out += data


def _read_nullable_string(reader: _Reader) -> str | None:
    length = reader.uvarint() - 1
    if length < 0:
        return None
    try:
        return reader.take(length).decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord("a string is not UTF-8") from error


def _read_string(reader: _Reader) -> str:
    value = _read_nullable_string(reader)
    if value is None:
        raise MalformedRecord("null where a string must be")
    return value


@lru_cache(maxsize=4096)  # thousands of changes name the same topic
def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _write_bytes(out: bytearray, value: bytes) -> None:
    write_unsigned(out, len(value) + 1)
    out += value


def _read_bytes(reader: _Reader) -> bytes:
    length = reader.uvarint() - 1
    if length < 0:
        raise MalformedRecord("null where bytes must be")
    return reader.take(length)


def _write_uuid(out: bytearray, value: UUID) -> None:
    out += value.bytes


_INT8, _INT16, _UINT16, _INT32, _INT64 = (_number(layout) for layout in "bhHiq")
_FLOAT64, _BOOL = _number("d"), _number("?")
_STRING = _Type(_write_string, _read_string)
_NULLABLE_STRING = _Type(_write_string, _read_nullable_string)
_BYTES = _Type(_write_bytes, _read_bytes)
_UUID = _Type(_write_uuid, lambda reader: _uuid(reader.take(16)))


def _write_int32s(out: bytearray, values: tuple[int, ...] | None) -> None:
    if values is None:
        out.append(0)
        return
    write_unsigned(out, len(values) + 1)
    out += struct.pack(f">{len(values)}i", *values)


def _read_int32s(reader: _Reader) -> tuple[int, ...] | None:
    count = reader.uvarint() - 1
    return None if count < 0 else struct.unpack(f">{count}i", reader.take(4 * count))


def _array(of: _Type) -> _Type:
    """A compact array as a tuple; None is written as null and read back as None."""

    def write(out: bytearray, values: tuple[Any, ...] | None) -> None:
        write_unsigned(out, 0 if values is None else len(values) + 1)
        for value in values or ():
            of.write(out, value)

    def read(reader: _Reader) -> tuple[Any, ...] | None:
        count = reader.uvarint() - 1
        if count > len(reader.data):
            raise MalformedRecord(f"{count} elements in {len(reader.data)} bytes")
        return None if count < 0 else tuple([of.read(reader) for _ in range(count)])

    return _Type(write, read)


_INT32S, _UUIDS = _Type(_write_int32s, _read_int32s), _array(_UUID)
_Field: TypeAlias = tuple[str, _Type]
_Tagged: TypeAlias = tuple[int, str, _Type]


def _fields(cls: type, plain: Iterable[_Field], tagged: Iterable[_Tagged] = ()) -> _Type:
    """The fields of one dataclass: plain ones in Kafka's order, tagged ones where they differ from their default.

    A broker that is fenced changes thousands of partitions in few different ways, and the tagged fields say how.
    """
    plain = tuple(plain)
    defaults = {field.name: field.default for field in fields(cls)}
    tags = {tag: (name, kind) for tag, name, kind in sorted(tagged, key=lambda entry: entry[0])}
    assert all(defaults[name] is not MISSING for name, _ in tags.values())

    names = tuple(name for name, _ in tags.values())
    tagged_of = attrgetter(*names, names[0]) if names else None  # twice the first: one name alone gives no tuple

    @lru_cache(maxsize=1024)
    def tagged_bytes(values: tuple[Any, ...]) -> bytes:
        out = bytearray()
        present = [
            (tag, kind, value)
            for (tag, (name, kind)), value in zip(tags.items(), values, strict=False)
            if value != defaults[name]
        ]
        write_unsigned(out, len(present))
        for tag, kind, value in present:
            data = bytearray()
            kind.write(data, value)
            write_unsigned(out, tag)
            write_unsigned(out, len(data))
            out += data
        return bytes(out)

    def write(out: bytearray, value: Any) -> None:
        for name, kind in plain:
            kind.write(out, getattr(value, name))
        out += tagged_bytes(tagged_of(value)) if tagged_of is not None else b"\0"

    def read(reader: _Reader) -> object:
        values = {name: kind.read(reader) for name, kind in plain}
        for _ in range(reader.uvarint()):
            tag, size = reader.uvarint(), reader.uvarint()
            end = reader.position + size
            if tag in tags:
                name, kind = tags[tag]
                values[name] = kind.read(reader)
            else:
                reader.take(size)
            if reader.position != end:
                raise MalformedRecord(f"tag {tag} has not the {size} bytes it says")
        return cls(**values)

    return _Type(write, read)


_ENDPOINT: Final = (("name", _STRING), ("host", _STRING), ("port", _UINT16), ("security_protocol", _INT16))
_ENDPOINTS = _array(_fields(r.Endpoint, _ENDPOINT))
_FEATURE: Final = (("name", _STRING), ("min_supported_version", _INT16), ("max_supported_version", _INT16))
_FEATURES = _array(_fields(r.BrokerFeature, _FEATURE))
_ENTITY = _array(_fields(r.QuotaEntity, (("entity_type", _STRING), ("entity_name", _NULLABLE_STRING))))


def _frame(key: int, version: int) -> bytes:
    """What every record of one kind begins with."""
    out = bytearray()
    for number in (FRAME_VERSION, key, version):
        write_unsigned(out, number)
    return bytes(out)


# class: (api key, version, plain fields in wire order, tagged fields)
_SCHEMAS: Final[dict[type, tuple[int, int, tuple[_Field, ...], tuple[_Tagged, ...]]]] = {
    r.RegisterBrokerRecord: (
        0,
        3,
        (
            ("broker_id", _INT32),
            ("is_migrating_zk_broker", _BOOL),
            ("incarnation_id", _UUID),
            ("broker_epoch", _INT64),
            ("end_points", _ENDPOINTS),
            ("features", _FEATURES),
            ("rack", _NULLABLE_STRING),
            ("fenced", _BOOL),
            ("in_controlled_shutdown", _BOOL),
        ),
        ((0, "log_dirs", _UUIDS),),
    ),
    r.UnregisterBrokerRecord: (1, 0, (("broker_id", _INT32), ("broker_epoch", _INT64)), ()),
    r.TopicRecord: (2, 0, (("name", _STRING), ("topic_id", _UUID)), ()),
    r.PartitionRecord: (
        3,
        2,
        (
            ("partition_id", _INT32),
            ("topic_id", _UUID),
            ("replicas", _INT32S),
            ("isr", _INT32S),
            ("removing_replicas", _INT32S),
            ("adding_replicas", _INT32S),
            ("leader", _INT32),
            ("leader_epoch", _INT32),
            ("partition_epoch", _INT32),
            ("directories", _UUIDS),
        ),
        ((0, "leader_recovery_state", _INT8), (1, "eligible_leader_replicas", _INT32S), (2, "last_known_elr", _INT32S)),
    ),
    r.ConfigRecord: (
        4,
        0,
        (("resource_type", _INT8), ("resource_name", _STRING), ("name", _STRING), ("value", _NULLABLE_STRING)),
        (),
    ),
    r.PartitionChangeRecord: (
        5,
        2,
        (("partition_id", _INT32), ("topic_id", _UUID)),
        (
            (0, "isr", _INT32S),
            (1, "leader", _INT32),
            (2, "replicas", _INT32S),
            (3, "removing_replicas", _INT32S),
            (4, "adding_replicas", _INT32S),
            (5, "leader_recovery_state", _INT8),
            (6, "eligible_leader_replicas", _INT32S),
            (7, "last_known_elr", _INT32S),
            (8, "directories", _UUIDS),
        ),
    ),
    r.RemoveTopicRecord: (9, 0, (("topic_id", _UUID),), ()),
    r.UserScramCredentialRecord: (
        11,
        0,
        (
            ("name", _STRING),
            ("mechanism", _INT8),
            ("salt", _BYTES),
            ("stored_key", _BYTES),
            ("server_key", _BYTES),
            ("iterations", _INT32),
        ),
        (),
    ),
    r.FeatureLevelRecord: (12, 0, (("name", _STRING), ("feature_level", _INT16)), ()),
    r.ClientQuotaRecord: (14, 0, (("entity", _ENTITY), ("key", _STRING), ("value", _FLOAT64), ("remove", _BOOL)), ()),
    r.ProducerIdsRecord: (
        15,
        0,
        (("broker_id", _INT32), ("broker_epoch", _INT64), ("next_producer_id", _INT64)),
        (),
    ),
    r.BrokerRegistrationChangeRecord: (
        17,
        2,
        (("broker_id", _INT32), ("broker_epoch", _INT64)),
        ((0, "fenced", _INT8), (1, "in_controlled_shutdown", _INT8), (2, "log_dirs", _UUIDS)),
    ),
    r.AccessControlEntryRecord: (
        18,
        0,
        (
            ("id", _UUID),
            ("resource_type", _INT8),
            ("resource_name", _STRING),
            ("pattern_type", _INT8),
            ("principal", _STRING),
            ("host", _STRING),
            ("operation", _INT8),
            ("permission_type", _INT8),
        ),
        (),
    ),
    r.RemoveAccessControlEntryRecord: (19, 0, (("id", _UUID),), ()),
    r.NoOpRecord: (20, 0, (), ()),
    r.RemoveUserScramCredentialRecord: (22, 0, (("name", _STRING), ("mechanism", _INT8)), ()),
    r.ClusterRecord: (10000, 0, (("cluster_id", _STRING),), ()),
    r.ServiceRecord: (
        10001,
        0,
        (
            ("role", _STRING),
            ("service_id", _INT32),
            ("service_epoch", _INT64),
            ("incarnation_id", _UUID),
            ("end_points", _ENDPOINTS),
        ),
        (),
    ),
    r.RemoveServiceRecord: (10002, 0, (("role", _STRING), ("service_id", _INT32), ("service_epoch", _INT64)), ()),
    r.ShardOwnerRecord: (
        10003,
        0,
        (("topic", _STRING), ("partition", _INT32), ("owner", _INT32), ("shard_epoch", _INT32)),
        (),
    ),
}
_WRITERS: Final = {
    cls: (key, version, _fields(cls, plain, tagged)) for cls, (key, version, plain, tagged) in _SCHEMAS.items()
}
_READERS: Final = {key: (version, kind) for key, version, kind in _WRITERS.values()}
_FRAMES: Final = {cls: _frame(key, version) for cls, (key, version, _) in _WRITERS.items()}


def api_key(record: r.MetadataRecord) -> int:
    """Returns the record's api key: Kafka's number, or one of ours from 10000."""
    return _WRITERS[type(record)][0]


def encode(record: r.MetadataRecord) -> bytes:
    """Returns the record in its frame: the value of one record of `__cluster_metadata`."""
    cls = type(record)
    out = bytearray(_FRAMES[cls])
    _WRITERS[cls][2].write(out, record)
    return bytes(out)


def decode(data: bytes) -> r.MetadataRecord:
    """Returns the record in a frame; raises MalformedRecord on anything else, bytes left over included."""
    reader = _Reader(data)
    frame, key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    if frame != FRAME_VERSION or key not in _READERS or _READERS[key][0] != version:
        raise MalformedRecord(
            f"a metadata record of frame {frame}, api key {key}, version {version} is not known to this version of "
            "Tailrace; a newer one may have written it"
        )
    record: r.MetadataRecord = _READERS[key][1].read(reader)
    if reader.position != len(data):
        raise MalformedRecord(f"{len(data) - reader.position} bytes follow a {type(record).__name__}")
    return record

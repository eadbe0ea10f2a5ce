"""Requests of every API that can be decoded and are meant badly, by seed: at their largest, repeated, extreme, null.

Bodies are written by their schema, byte for byte. What a client may lawfully do to others (throttle all by a quota of
everybody, unregister a living broker, create topics without end) is left out; see `_value` and `_count`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from support.abuse import Body, uvarint
from support.batches import Batch, record
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.library import struct_of, tagged

TOPICS: Final = ("hostile-0", "hostile-1", "hostile-2")
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
_GROUPS: Final = ("hostile", "other-hostile", "")
_BAD_TEXTS: Final = (
    "", ".", "..", "/../../etc/passwd", "\0", "\n\r\x1b[2J", "é" * 200, "😀" * 8_000, "a" * 249, "a" * 250,
    "x" * 32_767, "\0" * 32_767, "-1", "0", "%s%n{}", "*", "NaN",
)  # fmt: skip
_CONFIGS: Final = ("retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas", "no.such.config", "")
_SETTINGS: Final = ("-1", "0", "9" * 400, "-" + "9" * 400, "compact,delete", "compact," * 4_000, "1e308", "true", "")
_ENTITIES: Final = ("client-id", "user", "ip", "nobody", "")
_QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "none")
_REALS: Final = (0.0, -0.0, 1e-300, 1e308, -1.0, float("inf"), float("-inf"), float("nan"))
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_PACKED: Final = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H"}
_CREATES: Final = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS)
_DELETES: Final = (ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS)
_MOST_NEW_TOPICS: Final = 100
# Below a repeated row, lists are short: large in all directions at once, no request would be decoded.
_FEW: Final = (0, 1, 1, 2, 3)


@dataclass
class _Plan:
    """What one request is: which of its lists is long, how long, and of what."""

    long_list: str
    most_rows: int
    same_rows: bool
    left_bytes: int
    sane: float  # how often a value is one that exists


class Hostile:
    """An endless row of requests; the same for the same seed."""

    def __init__(self, seed: int, *, most_bytes: int = 1_000_000) -> None:
        self._chance = Random(seed)
        self._most_bytes = most_bytes
        self._apis = sorted(APIS)
        self._numbers = 0

    def next(self) -> Body:
        """Of any API and version."""
        chance = self._chance
        api = APIS[chance.choice(self._apis)]
        version = chance.randint(api.min_version, api.max_version)
        lists = _lists(struct_of(api.request), version)
        most_rows = chance.choice((1, 10, 1_000, 10_000, 20_000, 100_000))
        plan = _Plan(
            long_list=chance.choice(lists) if lists else "",
            most_rows=most_rows,
            same_rows=chance.random() < 0.5,
            left_bytes=chance.choice((1_000, 50_000, self._most_bytes)),
            sane=chance.choice((0.2, 0.7, 0.95)),
        )
        self._key, self._plan, self._flexible = api.key, plan, api.flexible(version)
        out = bytearray()
        self._struct(out, struct_of(api.request), version, "")
        return Body(api.key, version, bytes(out))

    def _struct(self, out: bytearray, struct_: Any, version: int, path: str) -> None:
        for field in struct_.untagged_fields(version):
            self._field(out, field, version, path)
        if self._flexible:
            self._tags(out, struct_, version, path)

    def _tags(self, out: bytearray, struct_: Any, version: int, path: str) -> None:
        written = []
        for tag, field in sorted(tagged(struct_, version).items()):
            if field.is_struct() or self._chance.random() < 0.5:
                continue
            value = bytearray()
            self._field(value, field, version, path)
            written.append((tag, bytes(value)))
        if not written and self._chance.random() < 0.02:
            written = [(2**31 - 1, bytes(100))]  # of a later version: passed over
        out += uvarint(len(written))
        for tag, data in written:
            out += uvarint(tag) + uvarint(len(data)) + data

    def _field(self, out: bytearray, field: Any, version: int, path: str) -> None:
        nullable = field.nullable_for_version_q(version)
        if field.is_array():
            self._array(out, field, version, f"{path}.{field.name}")
        elif field.is_struct():
            if nullable:
                null = self._chance.random() < 0.5
                out += b"\xff" if null else b"\1"
                if null:
                    return
            self._struct(out, field, version, f"{path}.{field.name}")
        else:
            self._value(out, field.name, field.type_str, nullable)

    def _array(self, out: bytearray, field: Any, version: int, path: str) -> None:
        chance, plan = self._chance, self._plan
        if field.nullable_for_version_q(version) and chance.random() < 0.15:
            out += self._length(-1, 4)
            return
        wanted = plan.most_rows if path == plan.long_list else chance.choice(_FEW)
        if path.count(".") == 1 and plan.long_list.startswith(path + "."):
            wanted = 1
        if self._key == ApiKey.CREATE_TOPICS and path == ".topics":
            wanted = min(wanted, _MOST_NEW_TOPICS)
        rows, count = bytearray(), 0
        while count < wanted and len(rows) < plan.left_bytes:
            before = len(rows)
            self._item(rows, field.array_of, version, path)
            count += 1
            if plan.same_rows and path == plan.long_list:
                more = max(0, min(wanted - 1, plan.left_bytes // max(1, len(rows) - before)))
                rows += bytes(rows[before:]) * more
                count += more
                break
        plan.left_bytes -= len(rows)
        out += self._length(count, 4) + rows

    def _item(self, out: bytearray, item: Any, version: int, path: str) -> None:
        if item.is_struct():
            self._struct(out, item, version, path)
        else:
            self._value(out, path.rpartition(".")[2], item.type_str, nullable=False)

    def _length(self, size: int, width: int) -> bytes:
        if self._flexible:
            return uvarint(size + 1)
        return size.to_bytes(width, "big", signed=True)

    def _value(self, out: bytearray, name: str, kind: str, nullable: bool) -> None:
        chance = self._chance
        if kind in ("string", "bytes", "records"):
            if nullable and chance.random() < 0.2 and self._key != ApiKey.ALTER_CLIENT_QUOTAS:  # null: everybody
                out += self._length(-1, 2 if kind == "string" else 4)
                return
            data = self._text(name).encode() if kind == "string" else self._data(kind)
            out += self._length(len(data), 2 if kind == "string" else 4) + data
        elif kind in _BITS:
            out += struct.pack(_PACKED[kind], self._number(name, _BITS[kind]))
        elif kind == "float64":
            out += struct.pack(">d", chance.choice(_REALS))
        elif kind == "bool":
            out += bytes((chance.random() < 0.5,))
        else:
            assert kind == "uuid", kind
            out += bytes(16) if chance.random() < 0.5 else chance.randbytes(16)

    def _text(self, name: str) -> str:
        chance, plan = self._chance, self._plan
        if chance.random() > plan.sane:
            return chance.choice(_BAD_TEXTS)
        if not plan.same_rows and plan.most_rows > 10 and chance.random() < 0.9:
            self._numbers += 1
            return f"hostile-{self._numbers % (50 if self._key in _GROUPS_STAY else 10**9)}"
        topics = TOPICS if self._key in _DELETES else TOPICS + _INTERNAL
        return chance.choice(_TEXTS.get(name, _GROUPS if "group" in name else topics))

    def _data(self, kind: str) -> bytes:
        chance = self._chance
        if kind == "records" and chance.random() < 0.7:
            return _records(chance)
        return chance.randbytes(chance.choice((0, 1, 60, 61, 500, min(100_000, self._most_bytes // 10))))

    def _number(self, name: str, bits: int) -> int:
        chance = self._chance
        top = int(2 ** (bits - 1))
        if name == "broker_id" and self._key == ApiKey.UNREGISTER_BROKER:
            return chance.choice((-top, -1, 1_000, top - 1))
        if self._key in _CREATES and name in ("num_partitions", "count"):
            return chance.choice((-top, -1, 0, 1, 3, 20_000, top - 1))
        if chance.random() < self._plan.sane:
            return chance.randrange(4) if bits > 8 else chance.randrange(2)
        if not self._plan.same_rows and chance.random() < 0.5:
            self._numbers += 1
            return self._numbers % top
        return chance.choice((-top, -1, 0, 1, top - 1, chance.randrange(-top, top)))


# What stays in a coordinator or controller until somebody takes it away: of few names.
_GROUPS_STAY: Final = frozenset(
    (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.CREATE_TOPICS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_CONFIGS,
     ApiKey.INCREMENTAL_ALTER_CONFIGS)
)  # fmt: skip
_TEXTS: Final = {
    "key": _QUOTAS,
    "entity_type": _ENTITIES,
    "value": _SETTINGS,
    "protocol_type": ("consumer", "connect", ""),
    "group_instance_id": ("static-0", "static-1"),
    "coordinator_keys": _GROUPS,
    "configuration_keys": _CONFIGS,
    "path": ("/tmp", "/", "relative"),
    "transactional_id": ("hostile-transaction",),
}


_CLAIMS: Final = {
    "record_count": 32, "last_offset_delta": 32, "base_sequence": 32, "producer_id": 64, "producer_epoch": 16,
    "attributes": 16, "base_offset": 64, "base_timestamp": 64, "max_timestamp": 64, "leader_epoch": 32,
}  # fmt: skip


def _records(chance: Random) -> bytes:
    """One batch or several, some of whose fields are not true; the checksum mostly is."""
    batches = bytearray()
    for _ in range(chance.choice((1, 1, 1, 2, 50))):
        batch = Batch(records=[record(0, chance.randbytes(chance.choice((0, 10, 1_000))))])
        for name in _CLAIMS:
            if chance.random() < 0.1:
                bits = _CLAIMS[name]
                setattr(batch, name, chance.choice((-1, 0, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))))
        encoded = bytearray(batch.encode())
        if chance.random() < 0.2:
            encoded[chance.randrange(len(encoded))] ^= 0xFF
        batches += encoded
    return bytes(batches)


def _lists(struct_: Any, version: int, path: str = "") -> list[str]:
    found = []
    for field in (*struct_.untagged_fields(version), *tagged(struct_, version).values()):
        here = f"{path}.{field.name}"
        if field.is_array():
            found.append(here)
            if field.array_of.is_struct():
                found += _lists(field.array_of, version, here)
    return found

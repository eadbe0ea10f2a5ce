"""The largest requests of every API that clients may use, made from the api table, the schemas and the ceilings.

One for each list of each API: it has as many rows as its ceiling allows, in one row of each list around it, with one
row in each list inside. All names differ, since repeats are answered once (wire/repeats.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tailrace.wire import codec
from tailrace.wire.apis import APIS, Api, ApiKey
from tailrace.wire.library import struct_of
from tailrace.wire.limits import Ceiling, ceiling

_VALUES: Final = {"validate_only": True, "timeout_ms": 1_000, "acks": -1, "max_bytes": 1_000_000, "replica_id": -1}
# A member would be waited for, and a broker forgotten.
_LEFT_OUT: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.UNREGISTER_BROKER})


@dataclass(frozen=True)
class Largest:
    """`frame` makes the request, with the given share of the rows that it may have."""

    api: Api
    path: str
    version: int

    @property
    def name(self) -> str:
        return f"{ApiKey(self.api.key).name} v{self.version}: {self.path}"

    @property
    def ceiling(self) -> Ceiling:
        return ceiling(self.api.key, self.path)

    def frame(self, scale: float = 1.0) -> bytes:
        return self.with_rows(max(1, int(self.ceiling.most * scale)))

    def with_rows(self, rows: int) -> bytes:
        """The whole frame."""
        counts = {self.path: rows}
        message = self.api.request(**_values(struct_of(self.api.request).fields, self.version, counts, "", 0))
        return codec.encode_request(message, self.version, 1, "largest")


def all_largest(apis: Mapping[int, Api] = APIS) -> Iterator[Largest]:
    """One for each list of each API, in the highest version that has the list."""
    for key, api in sorted(apis.items()):
        if key not in _LEFT_OUT:
            found: dict[str, int] = {}
            for version in range(api.min_version, api.max_version + 1):
                found |= dict.fromkeys(lists_of(api, version), version)
            yield from (Largest(api, path, version) for path, version in found.items())


def lists_of(api: Api, version: int) -> Iterator[str]:
    """The paths of all lists that a request of this version has, those inside rows after the rows themselves."""
    return _lists(struct_of(api.request).fields, version, "")


def _lists(fields: Any, version: int, prefix: str) -> Iterator[str]:
    for name, field in fields.items():
        if field.for_version_q(version):
            if field.is_array():
                yield prefix + name
            inner = field.array_of if field.is_array() else field
            if inner.is_struct():
                yield from _lists(inner.fields, version, f"{prefix}{name}.")


def _values(fields: Any, version: int, counts: dict[str, int], prefix: str, number: int) -> dict[str, Any]:
    return {
        name: _value(field, prefix + name, version, counts, number)
        for name, field in fields.items()
        if field.for_version_q(version)
    }


def _value(field: Any, path: str, version: int, counts: dict[str, int], number: int) -> Any:
    if field.is_array():
        item = field.array_of
        rows = range(counts.get(path, 1))
        if item.is_struct():
            return [field.data_class(**_values(item.fields, version, counts, f"{path}.", row)) for row in rows]
        return [_plain(item.type_str, row) for row in rows]
    if field.is_struct():
        return field.data_class(**_values(field.fields, version, counts, f"{path}.", number))
    return _VALUES.get(path.rpartition(".")[2], _plain(field.type_str, number))


def _plain(kind: str, number: int) -> Any:
    match kind:
        case "string":
            return f"n-{number}"
        case "uuid":
            return UUID(int=number + 1)
        case "bool":
            return False
        case "bytes" | "records":
            return b""
        case "float64":
            return 1e6
        case "int8":
            return number % 100
        case "int16" | "uint16":
            return number % 30_000
        case _:
            return number

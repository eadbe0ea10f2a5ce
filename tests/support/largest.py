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
    values: Mapping[str, Any] | None = None  # of fields by their names, whatever they are in
    prefix: str = "n"  # of all names

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
        maker = _Maker(self.version, self.path, rows, _VALUES | dict(self.values or {}), self.prefix)
        message = self.api.request(**maker.fields(struct_of(self.api.request).fields))
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


@dataclass(frozen=True)
class _Maker:
    """Makes the fields of one request: `rows` rows in the list at `path`, one in every other list."""

    version: int
    path: str
    rows: int
    values: Mapping[str, Any]
    prefix: str

    def fields(self, fields: Any, prefix: str = "", number: int = 0) -> dict[str, Any]:
        return {
            name: self._value(field, prefix + name, number)
            for name, field in fields.items()
            if field.for_version_q(self.version)
        }

    def _value(self, field: Any, path: str, number: int) -> Any:
        if field.is_array():
            item = field.array_of
            rows = range(self.rows if path == self.path else 1)
            if item.is_struct():
                return [field.data_class(**self.fields(item.fields, f"{path}.", row)) for row in rows]
            return [_plain(item.type_str, row, self.prefix) for row in rows]
        if field.is_struct():
            return field.data_class(**self.fields(field.fields, f"{path}.", number))
        return self.values.get(path.rpartition(".")[2], _plain(field.type_str, number, self.prefix))


def _plain(kind: str, number: int, prefix: str) -> Any:
    match kind:
        case "string":
            return f"{prefix}-{number}"
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

"""The largest requests of every API that clients may use, made from the api table and the schemas.

Of each list outside of all others one request has very many rows in it; another one has one row, and very many in the
lists inside. All names differ, since repeats are answered once (wire/repeats.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tailrace.wire import codec
from tailrace.wire.apis import APIS, Api, ApiKey
from tailrace.wire.library import struct_of
from tailrace.wire.strict import MOST_REQUEST_ROWS, MOST_ROWS

MOST_BYTES: Final = 15_000_000  # what the gateway collects is 16 MiB at most
_VALUES: Final = {"validate_only": True, "timeout_ms": 1_000, "acks": -1, "max_bytes": 1_000_000, "replica_id": -1}
_OTHERS: Final = 10  # rows of the request's other lists: a row too many and the request is refused
_OWN_LIMIT: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
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

    def frame(self, scale: float = 1.0) -> bytes:
        most = MOST_ROWS if self.api.key in _OWN_LIMIT else MOST_REQUEST_ROWS
        rows = max(1, int((most - _OTHERS) * scale))
        data = self.with_rows(min(rows, 500))
        each = len(data) // min(rows, 500) + 8
        return self.with_rows(max(1, min(rows, int(MOST_BYTES * scale) // each)))

    def with_rows(self, rows: int) -> bytes:
        """The whole frame."""
        outer, _, inner = self.path.partition(".")
        counts = {outer: 1, inner: rows} if inner else {outer: rows}
        fields: Any = struct_of(self.api.request).fields
        below = sum(1 for _ in _inner_lists(fields[outer])) if not inner else 0
        if below:  # they have a row each, which counts as well
            counts[outer] = max(1, rows // (1 + below))
        version = self.version
        values = {
            name: _value(field, name, version, counts if name == outer else {}, 0)
            for name, field in fields.items()
            if field.for_version_q(version)
        }
        message = self.api.request(**values)
        return codec.encode_request(message, version, 1, "largest")


def all_largest() -> Iterator[Largest]:
    """One for each list of each API, in the highest version that has the list."""
    for key, api in sorted(APIS.items()):
        if key in _LEFT_OUT:
            continue
        for name, field in struct_of(api.request).fields.items():
            if not field.is_array() or (version := _highest(api, field)) is None:
                continue
            yield Largest(api, name, version)
            if field.array_of.is_struct():
                yield from (
                    Largest(api, f"{name}.{inner}", version)
                    for inner, below in field.array_of.fields.items()
                    if below.is_array() and below.for_version_q(version)
                )


def _highest(api: Api, field: Any) -> int | None:
    versions = range(api.max_version, api.min_version - 1, -1)
    return next((version for version in versions if field.for_version_q(version)), None)


def _inner_lists(field: Any) -> Iterator[str]:
    if field.array_of.is_struct():
        yield from (name for name, inner in field.array_of.fields.items() if inner.is_array())


def _filled(made: Any, fields: Any, version: int, counts: dict[str, int], number: int) -> Any:
    values = {
        name: _value(field, name, version, counts, number)
        for name, field in fields.items()
        if field.for_version_q(version)
    }
    return made(**values)


def _value(field: Any, name: str, version: int, counts: dict[str, int], number: int) -> Any:
    if field.is_array():
        count = counts.get(name, 1)
        below = {inner: rows for inner, rows in counts.items() if inner != name}
        item = field.array_of
        if item.is_struct():
            return [_filled(field.data_class, item.fields, version, below, row) for row in range(count)]
        return [_plain(item.type_str, row) for row in range(count)]
    if field.is_struct():
        return _filled(field.data_class, field.fields, version, counts, number)
    return _VALUES.get(name, _plain(field.type_str, number))


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

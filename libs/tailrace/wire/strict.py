"""Checks a message body before kafka-python decodes it.

The library takes a string that runs past the end, a count of -5, an endless varint and trailing bytes without a word
(measured, docs/adr). The check walks the same schema once, allocates nothing, and bounds every count by the bytes left,
so that what is decoded afterwards is as small as the frame it came in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from tailrace.wire import library
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage
from tailrace.wire.varint import read_unsigned

# (body, position, how many rows may still come) -> next position
Check: TypeAlias = Callable[[Any, int, list[int]], int]

_FIXED = {
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "bool": 1,
    "uuid": 16,
    "bitfield": 4,
}

# Topics and partitions in one Produce or Fetch: a request is handled in one go, which must not take a broker's session.
MOST_ROWS = 100_000
# Rows of all lists of any other request, however deep: decoded, one takes up to fifty times the bytes it came in.
MOST_REQUEST_ROWS = 500_000
ANY_NUMBER = 1 << 62
# A compact string could be longer. Apache Kafka closes the connection over one, as no record could hold it.
MOST_STRING_BYTES = 32_767


def check(
    message: type[ApiMessage], version: int, body: Any, trailing: bool = False, most_rows: int = ANY_NUMBER
) -> None:
    """Walks the whole body; Malformed unless it is exactly one message of this version (and more, if trailing)."""
    try:
        end = _checker(message, version)(body, 0, [most_rows])
    except IndexError as short:
        raise Malformed("body ends in the middle of a field") from short
    if end > len(body) or (end < len(body) and not trailing):
        raise Malformed(f"body has {len(body)} bytes, its fields {end}")


@cache
def _checker(message: type[ApiMessage], version: int) -> Check:
    flexible = bool(message.flexible_version_q(version))
    return _struct(library.struct_of(message), version, flexible, flexible)


def _struct(field: Any, version: int, compact: bool, tagged: bool) -> Check:
    checks = [_field(inner, version, compact, tagged) for inner in field.untagged_fields(version)]
    if tagged:
        checks.append(_tags(library.tagged(field, version), version))

    def walk(body: Any, pos: int, left: list[int]) -> int:
        for step in checks:
            pos = step(body, pos, left)
        return pos

    return walk


def _field(field: Any, version: int, compact: bool, tagged: bool) -> Check:
    nullable = field.nullable_for_version_q(version)
    if field.is_array():
        inner = field.array_of
        item = (
            _struct(inner, version, compact, tagged) if inner.is_struct() else _field(inner, version, compact, tagged)
        )
        return _array(field.name, item, nullable, compact)
    if field.is_struct():
        return _nullable_struct(_struct(field, version, compact, tagged), nullable)
    kind = field.type_str
    if kind in _FIXED:
        return _fixed(_FIXED[kind])
    if kind == "string":
        return _sized(field.name, 2, nullable, compact, MOST_STRING_BYTES)
    return _sized(field.name, 4, nullable or kind == "records", compact)


def _fixed(size: int) -> Check:
    def walk(body: Any, pos: int, left: list[int]) -> int:
        if pos + size > len(body):
            raise IndexError
        return pos + size

    return walk


def _length(body: Any, pos: int, width: int, compact: bool) -> tuple[int, int]:
    """A length or count as the version writes it; -1 is null."""
    if compact:
        length, pos = read_unsigned(body, pos)
        return length - 1, pos
    if pos + width > len(body):
        raise IndexError
    return int.from_bytes(body[pos : pos + width], "big", signed=True), pos + width


def _sized(name: str, width: int, nullable: bool, compact: bool, most_bytes: int = ANY_NUMBER) -> Check:
    def walk(body: Any, pos: int, left: list[int]) -> int:
        length, pos = _length(body, pos, width, compact)
        if length < 0:
            if length == -1 and nullable:
                return pos
            raise Malformed(f"{name} has length {length}")
        if pos + length > len(body):
            raise Malformed(f"{name} has length {length}, {len(body) - pos} bytes are left")
        if length > most_bytes:
            raise Malformed(f"{name} has length {length}, a string has at most {most_bytes}")
        return pos + length

    return walk


def _array(name: str, item: Check, nullable: bool, compact: bool) -> Check:
    def walk(body: Any, pos: int, left: list[int]) -> int:
        count, pos = _length(body, pos, 4, compact)
        if count < 0:
            if count == -1 and nullable:
                return pos
            raise Malformed(f"{name} has count {count}")
        if count > len(body) - pos:  # every item takes a byte or more
            raise Malformed(f"{name} has count {count}, {len(body) - pos} bytes are left")
        left[0] -= count
        if left[0] < 0:
            raise Malformed(f"{name} has count {count}, which is more rows than a request may have")
        for _ in range(count):
            pos = item(body, pos, left)
        return pos

    return walk


def _nullable_struct(inner: Check, nullable: bool) -> Check:
    if not nullable:
        return inner

    def walk(body: Any, pos: int, left: list[int]) -> int:
        return pos + 1 if body[pos] == 0xFF else inner(body, pos + 1, left)

    return walk


def _tags(known: dict[int, Any], version: int) -> Check:
    # Inside a tagged field the library reads structs as having no tags of their own: one zero byte.
    inner = {tag: _field(field, version, True, True) for tag, field in known.items()}

    def walk(body: Any, pos: int, left: list[int]) -> int:
        count, pos = read_unsigned(body, pos)
        for _ in range(count):
            tag, pos = read_unsigned(body, pos)
            size, pos = read_unsigned(body, pos)
            end = pos + size
            if end > len(body):
                raise Malformed(f"tag {tag} has size {size}, {len(body) - pos} bytes are left")
            if tag in inner and inner[tag](body, pos, left) != end:
                raise Malformed(f"tag {tag} does not fill its size {size}")
            pos = end
        return pos

    return walk

"""Checks a message body before kafka-python decodes it.

The library takes a string that runs past the end, a count of -5, an endless varint and trailing bytes without a word
(measured, docs/adr). The check walks the same schema once, allocates nothing, and bounds every count by the bytes left,
so that what is decoded afterwards is as small as the frame it came in. A list of a request has at most as many rows as
its ceiling (limits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from tailrace.wire import library
from tailrace.wire.limits import Ceiling, ceiling
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage
from tailrace.wire.varint import read_unsigned

# (body, position, how many rows may still come of each list) -> next position
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

ANY_NUMBER = 1 << 62
# A compact string could be longer. Apache Kafka closes the connection over one, as no record could hold it.
MOST_STRING_BYTES = 32_767


class Excess(NamedTuple):
    """A list of a request that has more rows than its ceiling, and not so many that the connection is closed."""

    path: str
    ceiling: Ceiling


def check(message: type[ApiMessage], version: int, body: Any, trailing: bool = False) -> Excess | None:
    """Walks the whole body; Malformed unless it is exactly one message of this version (and more, if trailing).

    Returns the first list above a ceiling that is answered with an error code.
    """
    found = checker(message, version)
    left = list(found.doors)
    try:
        end = found.walk(body, 0, left)
    except IndexError as short:
        raise Malformed("body ends in the middle of a field") from short
    if end > len(body) or (end < len(body) and not trailing):
        raise Malformed(f"body has {len(body)} bytes, its fields {end}")
    for rows_left, least, excess in zip(left, found.least_left, found.lists, strict=False):
        if rows_left < least:
            return excess
    return None


class Checker(NamedTuple):
    """The check of one message in one version."""

    walk: Check
    lists: Sequence[Excess]
    doors: Sequence[int]  # the most rows that are decoded, of each list
    least_left: Sequence[int]  # how many of them are left at the ceiling


@cache
def checker(message: type[ApiMessage], version: int) -> Checker:
    """That of a message, made once."""
    flexible = bool(message.flexible_version_q(version))
    paths: list[str] = []
    walk = _struct(library.struct_of(message), version, flexible, flexible, _Lists("", paths))
    if not message.is_request():
        return Checker(walk, (), [ANY_NUMBER] * len(paths), ())
    lists = [Excess(path, ceiling(message.API_KEY, path)) for path in paths]
    doors = [each.door for _, each in lists]
    return Checker(walk, lists, doors, [each.door - each.most for _, each in lists])


class _Lists(NamedTuple):
    """The lists seen so far; a list's place among them is the place of its rows in `left`."""

    prefix: str
    paths: list[str]

    def place_of(self, name: str) -> int:
        self.paths.append(self.prefix + name)
        return len(self.paths) - 1

    def inside(self, name: str) -> _Lists:
        return _Lists(f"{self.prefix}{name}.", self.paths)


def _struct(field: Any, version: int, compact: bool, tagged: bool, lists: _Lists) -> Check:
    checks = [_field(inner, version, compact, tagged, lists) for inner in field.untagged_fields(version)]
    if tagged:
        checks.append(_tags(library.tagged(field, version), version, lists))

    def walk(body: Any, pos: int, left: list[int]) -> int:
        for step in checks:
            pos = step(body, pos, left)
        return pos

    return walk


def _field(field: Any, version: int, compact: bool, tagged: bool, lists: _Lists) -> Check:
    nullable = field.nullable_for_version_q(version)
    inside = lists.inside(field.name)
    if field.is_array():
        inner, place = field.array_of, lists.place_of(field.name)
        item = (
            _struct(inner, version, compact, tagged, inside)
            if inner.is_struct()
            else _field(inner, version, compact, tagged, inside)
        )
        return _array(lists.prefix + field.name, place, item, nullable, compact)
    if field.is_struct():
        return _nullable_struct(_struct(field, version, compact, tagged, inside), nullable)
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


def _array(name: str, place: int, item: Check, nullable: bool, compact: bool) -> Check:
    def walk(body: Any, pos: int, left: list[int]) -> int:
        count, pos = _length(body, pos, 4, compact)
        if count < 0:
            if count == -1 and nullable:
                return pos
            raise Malformed(f"{name} has count {count}")
        if count > len(body) - pos:  # every item takes a byte or more
            raise Malformed(f"{name} has count {count}, {len(body) - pos} bytes are left")
        left[place] -= count
        if left[place] < 0:
            raise Malformed(f"{name} has more rows than a request may have (docs/limits.md)")
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


def _tags(known: dict[int, Any], version: int, lists: _Lists) -> Check:
    # Inside a tagged field the library reads structs as having no tags of their own: one zero byte.
    inner = {tag: _field(field, version, True, True, lists) for tag, field in known.items()}

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

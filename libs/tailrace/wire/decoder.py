"""Decoders of message bodies: one straight-line function for each message and version, generated from its schema.

It checks and reads in one pass, and makes the objects that kafka-python's own decoder makes. That one takes a string
that runs past the end, a count of -5, an endless varint and trailing bytes without a word (measured, docs/adr); here
each is Malformed, every count is bounded by the bytes left, and a list of a request has at most as many rows as its
ceiling (limits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from struct import Struct, error, unpack_from
from typing import Any, Final, NamedTuple
from uuid import UUID, SafeUUID

from tailrace.wire import library
from tailrace.wire.limits import MOST_STRING_BYTES, Ceiling, ceiling
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage
from tailrace.wire.pieces import Bytes
from tailrace.wire.varint import read_unsigned

# (body, position, how many rows may still come of each list) -> value, next position
Read = Callable[[Bytes, int, list[int]], tuple[Any, int]]

ANY_NUMBER: Final = 1 << 62
_NUMBERS: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
_SIZES: Final = {kind: Struct(">" + code).size for kind, code in _NUMBERS.items()}
_COPIED_BYTES: Final = 1 << 20  # a body as bytes is read faster than a view of it; a large one takes long to copy
_ZERO_UUID: Final = bytes(16)


class Excess(NamedTuple):
    """A list of a request that has more rows than its ceiling, and not so many that the connection is closed."""

    path: str
    ceiling: Ceiling


class Decoder(NamedTuple):
    """That of one message in one version."""

    read: Read
    lists: Sequence[Excess]
    doors: Sequence[int]  # the most rows that are decoded, of each list
    least_left: Sequence[int]  # how many of them are left at the ceiling
    source: str


def decode(message: type[ApiMessage], version: int, body: Bytes, trailing: bool = False) -> tuple[Any, Excess | None]:
    """The message, and the first list above a ceiling that is answered with an error code.

    Raises Malformed unless the body is exactly one message of this version (and more, if trailing).
    """
    found = decoder(message, version)
    size = len(body)
    left = list(found.doors)
    try:
        decoded, end = found.read(bytes(body) if size <= _COPIED_BYTES else body, 0, left)
    except (IndexError, error) as short:
        raise Malformed(f"{message.__name__} v{version} ends in the middle of a field") from short
    except UnicodeDecodeError as failure:
        raise Malformed(f"{message.__name__} v{version}: {failure}") from failure
    if end > size or (end < size and not trailing):
        raise Malformed(f"{message.__name__} v{version} has {size} bytes, its fields {end}")
    for rows_left, least, excess in zip(left, found.least_left, found.lists, strict=False):
        if rows_left < least:
            return decoded, excess
    return decoded, None


@cache
def decoder(message: type[ApiMessage], version: int) -> Decoder:
    """Generated when it is needed first."""
    flexible = bool(message.flexible_version_q(version))
    source = _Source(version, flexible)
    source.function("read", lambda: source.struct(library.struct_of(message), library.class_of(message), ""))
    text = source.text()
    names = source.names
    exec(compile(text, f"<decoder of {message.__name__} v{version}>", "exec"), names)
    read: Read = names["read"]
    if not message.is_request():
        return Decoder(read, (), [ANY_NUMBER] * len(source.lists), (), text)
    lists = [Excess(path, ceiling(message.API_KEY, path)) for path in source.lists]
    doors = [each.door for _, each in lists]
    return Decoder(read, lists, doors, [each.door - each.most for _, each in lists], text)


class _Source:
    """The text of one decoder, and what its names stand for."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.names: dict[str, Any] = {
            "new": object.__new__,
            "unpack_from": unpack_from,
            "read_unsigned": read_unsigned,
            "read_tags": _read_tags,
            "uuid_of": uuid_of,
            "bits_of": library.bits_of,
            "length_error": _length_error,
            "count_error": _count_error,
            "rows_error": _rows_error,
        }
        self.lists: list[str] = []
        self._version = version
        self._flexible = flexible
        self._functions: list[list[str]] = []
        self._lines: list[str] = []
        self._indent = 1
        self._number = 0

    def text(self) -> str:
        return "\n".join(line for lines in self._functions for line in lines)

    def function(self, name: str, body: Callable[[], str]) -> None:
        """Adds a function; its body says where it leaves its result."""
        outer = self._lines, self._indent
        self._lines, self._indent = [f"def {name}(data, pos, left):", "    size = len(data)"], 1
        self._add(f"return {body()}, pos")
        self._functions.append(self._lines)
        self._lines, self._indent = outer

    def _add(self, *lines: str) -> None:
        self._lines.extend("    " * self._indent + line for line in lines)

    def _named(self, kind: str, value: object) -> str:
        self._number += 1
        name = f"{kind}_{self._number}"
        self.names[name] = value
        return name

    def struct(self, field: Any, data_class: Any, prefix: str) -> str:
        """Reads all fields of a row into a new object; returns its name."""
        self._number += 1
        row = f"row_{self._number}"
        self._add(f"{row} = new({self._named('class', data_class)})")
        self._add(f"{row}._version = {self._version}", f"{row}.tags = None", f"{row}.unknown_tags = None")
        run: list[Any] = []
        for inner in field.untagged_fields(self._version):
            if inner.type_str in _NUMBERS and not inner.is_array():
                run.append(inner)
                continue
            self._run(row, run)
            self._field(f"{row}.{inner.name}", inner, prefix)
        self._run(row, run)
        if self._flexible:
            self._tags(row, field, prefix)
        return row

    def _run(self, row: str, run: list[Any]) -> None:
        """Neighbours of fixed size are unpacked together, straight into their places."""
        if run:
            packed = Struct(">" + "".join(_NUMBERS[inner.type_str] for inner in run))
            targets = "".join(f"{row}.{inner.name}, " for inner in run)
            self._add(f"{targets}= {self._named('unpack', packed.unpack_from)}(data, pos)", f"pos += {packed.size}")
            run.clear()

    def _field(self, target: str, field: Any, prefix: str) -> None:
        nullable = field.nullable_for_version_q(self._version)
        if field.is_array():
            self._array(target, field, nullable, prefix)
        elif field.is_struct():
            self._nested(target, field, nullable, prefix)
        else:
            self._simple(target, field.type_str, field.name, nullable)

    def _nested(self, target: str, field: Any, nullable: bool, prefix: str) -> None:
        if nullable:
            self._add("if data[pos] == 0xFF:", f"    {target} = None", "    pos += 1", "else:", "    pos += 1")
            self._indent += 1
        self._add(f"{target} = {self.struct(field, field.data_class, f'{prefix}{field.name}.')}")
        if nullable:
            self._indent -= 1

    def _simple(self, target: str, kind: str, name: str, nullable: bool) -> None:
        if kind in _NUMBERS:
            self._add(f'{target}, = unpack_from(">{_NUMBERS[kind]}", data, pos)', f"pos += {_SIZES[kind]}")
        elif kind == "uuid":
            self._add("if pos + 16 > size: raise IndexError", f"{target} = uuid_of(data[pos : pos + 16])", "pos += 16")
        elif kind == "bitfield":
            self._add(f'{target} = bits_of(unpack_from(">I", data, pos)[0])', "pos += 4")
        elif kind == "string":
            self._sized(target, name, nullable, 'str(data[pos:end], "utf-8")', '""', "h", MOST_STRING_BYTES)
        else:
            self._sized(target, name, nullable or kind == "records", "bytes(data[pos:end])", 'b""', "i", ANY_NUMBER)

    def _length(self, code: str) -> None:
        """Leaves a length or count in `n`, with -1 for null."""
        if self._flexible:
            self._add("n = data[pos] - 1", "if n < 0x7F: pos += 1", "else:")
            self._add("    n, pos = read_unsigned(data, pos)", "    n -= 1")
        else:
            self._add(f'n, = unpack_from(">{code}", data, pos)', f"pos += {2 if code == 'h' else 4}")

    def _sized(self, target: str, name: str, nullable: bool, value: str, empty: str, code: str, most: int) -> None:
        self._length(code)
        limit = f" or n > {most}" if self._flexible and most != ANY_NUMBER else ""
        self._add("if n > 0:", "    end = pos + n")
        self._add(f"    if end > size{limit}: raise length_error({name!r}, n, size - pos, {most})")
        self._add(f"    {target} = {value}", "    pos = end")
        self._add(f"elif n == 0: {target} = {empty}")
        if nullable:
            self._add(f"elif n == -1: {target} = None")
        self._add(f"else: raise length_error({name!r}, n, size - pos, {most})")

    def _array(self, target: str, field: Any, nullable: bool, prefix: str) -> None:
        path = prefix + field.name
        place = len(self.lists)
        self.lists.append(path)
        self._length("i")
        if nullable:
            self._add(f"if n == -1: {target} = None", "else:")
            self._indent += 1
        self._add(f"if not 0 <= n <= size - pos: raise count_error({path!r}, n, size - pos)")  # each takes a byte
        self._add(f"left[{place}] -= n", f"if left[{place}] < 0: raise rows_error({path!r})")
        self._rows(target, field, prefix)
        if nullable:
            self._indent -= 1

    def _rows(self, target: str, field: Any, prefix: str) -> None:
        item = field.array_of
        if not item.is_struct() and item.type_str in _NUMBERS:
            self._add(f'{target} = list(unpack_from(f">{{n}}{_NUMBERS[item.type_str]}", data, pos))')
            self._add(f"pos += n * {_SIZES[item.type_str]}")
            return
        self._number += 1
        rows = f"rows_{self._number}"
        self._add(f"{target} = {rows} = []", f"add_{rows} = {rows}.append", "for _ in range(n):")
        self._indent += 1
        if item.is_struct():
            value = self.struct(item, field.data_class, f"{prefix}{field.name}.")
        else:
            value = f"item_{rows}"
            self._simple(value, item.type_str, field.name, item.nullable_for_version_q(self._version))
        self._add(f"add_{rows}({value})")
        self._indent -= 1

    def _tagged(self, field: Any, prefix: str) -> str:
        self._field("value", field, prefix)
        return "value"

    def _tags(self, row: str, field: Any, prefix: str) -> None:
        """No tags, which is one byte, is what nearly all rows have."""
        known: dict[int, tuple[str, str]] = {}
        for tag, inner in library.tagged(field, self._version).items():
            self._number += 1
            reader = f"tag_{self._number}"
            self.function(reader, partial(self._tagged, inner, prefix))
            known[tag] = inner.name, reader
        table = "".join(f"{tag}: ({name!r}, {reader}), " for tag, (name, reader) in known.items())
        self._add(f"if data[pos]: pos = read_tags(data, pos, left, {row}, {{{table}}})", "else: pos += 1")


def _read_tags(data: Bytes, pos: int, left: list[int], row: Any, known: dict[int, tuple[str, Read]]) -> int:
    """Sets the known tagged fields of a row and keeps the others as bytes; returns the next position."""
    count, pos = read_unsigned(data, pos)
    for _ in range(count):
        tag, pos = read_unsigned(data, pos)
        size, pos = read_unsigned(data, pos)
        end = pos + size
        if end > len(data):
            raise Malformed(f"tag {tag} has size {size}, {len(data) - pos} bytes are left")
        if tag in known:
            name, read = known[tag]
            value, at = read(data, pos, left)
            if at != end:
                raise Malformed(f"tag {tag} does not fill its size {size}")
            setattr(row, name, value)
            row.tags = {name, *(row.tags or ())}
        else:
            row.unknown_tags = {**(row.unknown_tags or {}), f"_{tag}": bytes(data[pos:end])}
        pos = end
    return pos


def uuid_of(written: Bytes) -> UUID | None:
    """As UUID(bytes=...), in half the time; None for zeros, as kafka-python has it."""
    if written == _ZERO_UUID:
        return None
    found = object.__new__(UUID)
    object.__setattr__(found, "int", int.from_bytes(written, "big"))
    object.__setattr__(found, "is_safe", SafeUUID.unknown)
    return found


def _length_error(name: str, length: int, left: int, most: int) -> Malformed:
    if length < 0:
        return Malformed(f"{name} has length {length}")
    if length > left:
        return Malformed(f"{name} has length {length}, {left} bytes are left")
    return Malformed(f"{name} has length {length}, a string has at most {most}")


def _count_error(path: str, count: int, left: int) -> Malformed:
    if count < 0:
        return Malformed(f"{path} has count {count}")
    return Malformed(f"{path} has count {count}, {left} bytes are left")


def _rows_error(path: str) -> Malformed:
    return Malformed(f"{path} has more rows than a request may have (docs/limits.md)")

"""The fields of records that Kafka's coordinators write: primitive types, flexible (KIP-482) or not."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tailrace.wire.malformed import Malformed
from tailrace.wire.varint import read_unsigned, unsigned

T = TypeVar("T")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class BadRecord(ValueError):
    """A key or value that does not follow its schema."""


class FieldReader:
    """Reads Kafka's primitive types, flexible (KIP-482) once the version said so."""

    __slots__ = ("at", "flexible", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0
        self.flexible = False

    def version(self, highest: int, flexible_from: int) -> int:
        """The version of a value, which says how the rest is read; BadRecord for an unknown one."""
        version = self.int16()
        if not 0 <= version <= highest:
            raise BadRecord(f"value version {version}, highest known {highest}")
        self.flexible = version >= flexible_from
        return version

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.raw):
            raise self._cut_off(size)
        piece = self.raw[self.at : end]
        self.at = end
        return piece

    def int16(self) -> int:
        try:
            number: int = _INT16.unpack_from(self.raw, self.at)[0]
        except struct.error:
            raise self._cut_off(2) from None
        self.at += 2
        return number

    def int32(self) -> int:
        try:
            number: int = _INT32.unpack_from(self.raw, self.at)[0]
        except struct.error:
            raise self._cut_off(4) from None
        self.at += 4
        return number

    def int64(self) -> int:
        try:
            number: int = _INT64.unpack_from(self.raw, self.at)[0]
        except struct.error:
            raise self._cut_off(8) from None
        self.at += 8
        return number

    def varint(self) -> int:
        try:
            number, self.at = read_unsigned(self.raw, self.at)
        except (IndexError, Malformed) as wrong:
            raise BadRecord(f"varint at {self.at} of {len(self.raw)}") from wrong
        return number

    def nullable_string(self) -> str | None:
        size = self.varint() - 1 if self.flexible else self.int16()
        if size == -1:
            return None
        end = self.at + size
        if size < 0 or end > len(self.raw):
            raise self._cut_off(size)
        try:
            text = self.raw[self.at : end].decode()
            self.at = end
            return text
        except UnicodeDecodeError as error:
            raise BadRecord("string that is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise BadRecord("null where a string must be")
        return text

    def byte_string(self) -> bytes:
        return self.take(self.varint() - 1 if self.flexible else self.int32())

    def int8(self) -> int:
        return self.take(1)[0]

    def array(self, read: Callable[[], T]) -> list[T]:
        """Its entries, each by read; none of a null one."""
        return [read() for _ in range(self.count())]

    def count(self) -> int:
        """How many entries an array has, which follow; 0 of a null one."""
        count = self.varint() - 1 if self.flexible else self.int32()
        if count == -1:
            return 0
        if not 0 <= count <= len(self.raw):
            raise BadRecord(f"array of {count}")
        return count

    def tags(self) -> dict[int, bytes]:
        found = {}
        for _ in range(self.varint()):
            tag = self.varint()
            found[tag] = self.take(self.varint())
        return found

    def end_of_struct(self) -> None:
        if self.flexible:
            self.tags()

    def _cut_off(self, size: int) -> BadRecord:
        return BadRecord(f"{size} bytes wanted at {self.at} of {len(self.raw)}")


def key_string(text: str) -> bytes:
    """A string of a key, which is not flexible."""
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def compact_string(text: str | None) -> bytes:
    """A string of a flexible value."""
    return b"\0" if text is None else compact_bytes(text.encode())


def compact_bytes(raw: bytes) -> bytes:
    """Bytes of a flexible value."""
    return unsigned(len(raw) + 1) + raw


def compact_array(entries: Iterable[bytes]) -> bytes:
    """An array of a flexible value."""
    encoded = list(entries)
    return unsigned(len(encoded) + 1) + b"".join(encoded)


def tagged(fields: Mapping[int, bytes]) -> bytes:
    """The tagged fields at the end of a flexible structure; without any, the end of the structure."""
    encoded = (unsigned(tag) + unsigned(len(raw)) + raw for tag, raw in sorted(fields.items()))
    return unsigned(len(fields)) + b"".join(encoded)

r"""kcat's format strings (`-f '%t-%p %o: %k = %s\n'`): a record as bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tailrace.records.record import Record

_Piece: TypeAlias = Callable[[str, int, Record], bytes]
_NAMED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)


def _size(part: bytes | None) -> bytes:
    return b"-1" if part is None else b"%d" % len(part)


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_FIELDS: Final[Mapping[str, _Piece]] = {
    "s": lambda topic, partition, record: record.value or b"",
    "S": lambda topic, partition, record: _size(record.value),
    "k": lambda topic, partition, record: record.key or b"",
    "K": lambda topic, partition, record: _size(record.key),
    "T": lambda topic, partition, record: b"%d" % record.timestamp,
    "h": lambda topic, partition, record: _headers(record),
    "t": lambda topic, partition, record: topic.encode(),
    "p": lambda topic, partition, record: b"%d" % partition,
    "o": lambda topic, partition, record: b"%d" % record.offset,
    "%": lambda topic, partition, record: b"%",
}


class RecordFormat:
    """A format string, ready for many records. A null key or value is empty, and its size is -1, as in kcat."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for an unknown % or backslash."""
        self._pieces = [_piece(match) for match in _TOKEN.finditer(text)]

    def render(self, topic: str, partition: int, record: Record) -> bytes:
        """The record's text, without a line feed that the format does not have."""
        return b"".join(
            piece if isinstance(piece, bytes) else piece(topic, partition, record) for piece in self._pieces
        )


def _piece(match: re.Match[str]) -> bytes | _Piece:
    field, code, escape, text = match.groups()
    if text is not None:
        return text.encode()
    if code is not None:
        return bytes.fromhex(code)
    if escape is not None:
        if escape not in _NAMED:
            raise ValueError(f"\\{escape}: expected \\n, \\r, \\t, \\0, \\\\ or \\xHH")
        return _NAMED[escape]
    if field not in _FIELDS:
        raise ValueError(f"%{field}: expected one of {', '.join(f'%{name}' for name in _FIELDS)}")
    return _FIELDS[field]

"""The end of a message of very many rows: freed some hundred rows at a time.

What holds a million objects frees them all when it is freed itself, which is one step for the interpreter: no thread
has its turn before that is over.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from tailrace.net.pieces import ROWS_AT_ONCE
from tailrace.wire.library import struct_of

_OURS = 3  # a local name here, a parameter there, and the argument of getrefcount


def let_go(message: Any) -> None:
    """Takes the lists out of a message and empties them, unless somebody else has the list or the row."""
    for name in _lists(message):
        rows = getattr(message, name, None)
        if type(rows) is list and rows:
            setattr(message, name, [])
            if _is_ours(rows):
                empty(rows)


def empty(rows: list[Any]) -> None:
    if not _lists(rows[0]):
        while rows:
            del rows[-ROWS_AT_ONCE:]
        return
    while rows:
        row = rows.pop()
        if _is_ours(row):
            let_go(row)


def _is_ours(found: Any) -> bool:
    return getrefcount(found) <= _OURS


def _lists(row: Any) -> tuple[str, ...]:
    """The names of the lists in a row of this kind; none for a plain value."""
    kind = type(row)
    if kind not in _KNOWN:
        fields = struct_of(row).fields if hasattr(row, "_struct") else {}
        _KNOWN[kind] = tuple(name for name, inner in fields.items() if inner.is_array())
    return _KNOWN[kind]


_KNOWN: dict[type, tuple[str, ...]] = {}

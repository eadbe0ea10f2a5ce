"""Tag sections of flexible versions (KIP-482): how many tags, then number, size and bytes of each.

IndexError is raised where the bytes end too early, as by varint.py.
"""

from __future__ import annotations

from typing import Any

from tailrace.wire.varint import read_unsigned


def end_of_tags(view: Any, pos: int) -> int:
    """The position behind the section that begins at pos."""
    if view[pos] == 0:
        return pos + 1
    count, pos = read_unsigned(view, pos)
    for _ in range(count):
        _, pos = read_unsigned(view, pos)
        size, pos = read_unsigned(view, pos)
        pos += size
        if pos > len(view):
            raise IndexError
    return pos


def read_tags(view: memoryview, pos: int) -> tuple[dict[int, memoryview], int]:
    """The bytes of each tag by its number, and the position behind the section."""
    if view[pos] == 0:
        return {}, pos + 1
    count, pos = read_unsigned(view, pos)
    found = {}
    for _ in range(count):
        tag, pos = read_unsigned(view, pos)
        size, pos = read_unsigned(view, pos)
        if pos + size > len(view):
            raise IndexError
        found[tag] = view[pos : pos + size]
        pos += size
    return found, pos

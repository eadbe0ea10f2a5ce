"""Positions of a reader of several partitions as a text (`0:17,1:5`), and lists of partitions (`0,4-7`). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PAIR: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,19})")
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")


def written(positions: Mapping[int, int]) -> str:
    """By partition the offset to go on at."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def parse(text: str, most: int) -> dict[int, int]:
    """Raises ValueError with a sentence that says what is expected."""
    found: dict[int, int] = {}
    for part in text.split(",", most):
        pair = _PAIR.fullmatch(part)
        if pair is None or len(found) == most:
            raise ValueError(f"cursor: expected up to {most} of PARTITION:OFFSET, as 0:17,1:5")
        found[int(pair[1])] = int(pair[2])
    return found


def parse_partitions(text: str, most: int) -> list[int]:
    """Raises ValueError with a sentence that says what is expected."""
    found: set[int] = set()
    for part in text.split(",", most):
        numbers = _RANGE.fullmatch(part)
        if numbers is not None:
            first, last = int(numbers[1]), int(numbers[2] or numbers[1])
            if first <= last < first + most:
                found.update(range(first, last + 1))
                continue
        raise ValueError(f"partitions: expected numbers and ranges as 0,4-7, {most} at most")
    if len(found) > most:
        raise ValueError(f"partitions: {most} at most")
    return sorted(found)

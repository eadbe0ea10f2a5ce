"""Rows that take longer than the other work of the loop can wait: a log may have to be opened for each partition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

from tailrace.net.turns import turns

_Row = TypeVar("_Row")


def each_row(rows: Iterable[_Row]) -> AsyncIterator[_Row]:
    """The rows; the other work of the loop has its turn between."""
    return turns(rows)


def partition_rows(topics: Iterable[Any]) -> AsyncIterator[tuple[Any, Any]]:
    """As each_row, each topic with each of its partitions."""
    return each_row((topic, row) for topic in topics for row in topic.partitions)

"""Work in steps, between which an event loop may turn to others; who runs the steps decides that. Pure."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def whole(steps: Steps[T]) -> T:
    """Returns what the steps return, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: T = ended.value
            return found

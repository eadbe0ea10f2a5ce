"""Work in steps, between which an event loop may turn to others; who runs the steps decides that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
# Some of them wait for the disk: what is yielded is called before the next one, in a thread if you like. Its OSError is
# raised where it was yielded.
DiskSteps: TypeAlias = Generator[Callable[[], None] | None, None, None]
ROWS_A_STEP = 200  # members, offsets or records, of which each takes some microseconds


def in_one_step(steps: Steps[T]) -> T | None:
    """Returns what the steps return if it is only one; else they end there, with None."""
    try:
        next(steps)
    except StopIteration as ended:
        found: T = ended.value
        return found
    steps.close()
    return None


def whole(steps: Steps[T]) -> T:
    """Returns what the steps return, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: T = ended.value
            return found


def whole_on_disk(steps: DiskSteps) -> None:
    """Returns when all is done, without a pause. Raises what the steps do."""
    failed: OSError | None = None
    while True:
        try:
            work = next(steps) if failed is None else steps.throw(failed)
        except StopIteration:
            return
        failed = None
        try:
            if work is not None:
                work()
        except OSError as error:
            failed = error

"""Work in steps, between which an event loop may turn to others; who runs the steps decides that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
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


class DiskWork:
    """What waits for the disk between two steps: whoever runs the steps runs it first, in a thread if they like."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._failed: OSError | None = None

    def run(self) -> None:
        """Its OSError is for the steps."""
        try:
            self._work()
        except OSError as failed:
            self._failed = failed

    def check(self) -> None:
        """Raises the OSError of the run."""
        if self._failed is not None:
            raise self._failed


DiskSteps: TypeAlias = Generator[DiskWork | None, None, None]


def on_disk(work: Callable[[], None]) -> DiskSteps:
    """One step that waits for the disk. Raises the OSError of the work."""
    step = DiskWork(work)
    yield step
    step.check()


def whole_on_disk(steps: DiskSteps) -> None:
    """Returns when all is done, without a pause. Raises what the steps do."""
    for work in steps:
        if work is not None:
            work.run()

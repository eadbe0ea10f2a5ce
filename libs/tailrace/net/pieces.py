"""Work on many rows, in pieces between which everybody else on the event loop has their turn.

A request may have half a million rows. What a handler does with one takes some microseconds, so some hundred of them
take a few milliseconds: that is how long a heartbeat or another client waits for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable
from types import coroutine
from typing import Final, TypeVar

ROWS_AT_ONCE: Final = 500
_Row = TypeVar("_Row")
_Found = TypeVar("_Found")


@coroutine
def others_first() -> Generator[None, None, None]:
    """What is ready to run on the loop runs first."""
    yield


async def in_pieces(
    rows: Iterable[_Row], at_once: int = ROWS_AT_ONCE, weigh: Callable[[_Row], int] | None = None
) -> AsyncIterator[_Row]:
    """The rows, others having their turn after every at_once of them; weigh says for how many rows one counts."""
    done = 0
    for row in rows:
        yield row
        done += 1 if weigh is None else weigh(row)
        if done >= at_once:
            done = 0
            await others_first()


async def in_turns(steps: Generator[None, None, _Found]) -> _Found:
    """What a generator returns; wherever it yields others have their turn."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: _Found = ended.value
            return found
        await others_first()


def at_once(steps: Generator[None, None, _Found]) -> _Found:
    """What a generator returns, without a pause: for what is known to be little."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: _Found = ended.value
            return found

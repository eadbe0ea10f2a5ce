"""Work on many rows, in pieces between which everybody else on the event loop has their turn.

A request may have half a million rows. What a handler does with one takes some microseconds, so some hundred of them
take a few milliseconds: that is how long a heartbeat or another client waits for it, also where several requests of
that kind are handled at once. Where rows take longer than that a piece ends by the time that it took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from tailrace.net.spread import Spread
from tailrace.processor_time import thread_time_ms
from tailrace.steps import Steps

ROWS_AT_ONCE: Final = 500
_FREED_AT_ONCE: Final = 100
_LOOKS: Final = 10  # of a piece: how often its time is looked at
_MOST_MS: Final = 2.0  # of processor time
_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)
_Found = TypeVar("_Found")


class _Turns:
    """Of one event loop: of all who let others go first, one goes on in each of its turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def wait(self) -> asyncio.Future[None]:
        future = self._loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)
        return future

    def _next(self) -> None:
        future = self._waiting.popleft()
        if not future.done():
            future.set_result(None)
        if self._waiting:
            self._loop.call_soon(self._next)


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]] = WeakKeyDictionary()


async def others_first() -> None:
    """What is ready to run on the loop runs first, and so do others who said this before."""
    loop = asyncio.get_running_loop()
    turns = _TURNS.get(loop)
    if turns is None:
        turns = _TURNS[loop] = _Turns(loop)
    await turns.wait()


async def in_pieces(
    rows: Iterable[_Row], at_once: int = ROWS_AT_ONCE, weigh: Callable[[_Row], int] | None = None
) -> AsyncIterator[_Row]:
    """The rows, others having their turn after every at_once of them; weigh says for how many rows one counts.

    They have it sooner where what is done with the rows takes longer: what takes a tenth of them is not looked at.
    """
    done, step = 0, max(1, at_once // _LOOKS)
    look, began = step, thread_time_ms()
    for row in rows:
        yield row
        done += 1 if weigh is None else weigh(row)
        if done >= look:
            look = done + step
            if done >= at_once or thread_time_ms() - began > _MOST_MS:
                await others_first()
                done, look, began = 0, step, thread_time_ms()


async def in_turns(steps: Steps[_Found]) -> _Found:
    """What a generator returns; wherever it yields others have their turn."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: _Found = ended.value
            return found
        await others_first()


async def each_once(rows: AsyncIterator[_Key]) -> Spread[_Key, None]:
    """As a set of very many, which others have their turn while it is made; to be freed."""
    found: Spread[_Key, None] = Spread()
    async for row in rows:
        found[row] = None
    return found


async def freed(*found: list[Any] | Spread[Any, Any]) -> None:
    """Empties what nobody needs any more: the end of very many rows at once takes long as well."""
    for rows in found:
        if isinstance(rows, Spread):
            for part in rows.parts:
                if part:
                    part.clear()
                    await others_first()
            continue
        done = 0
        while rows:
            done += await _freed_last(rows)
            if done >= ROWS_AT_ONCE:
                done = 0
                await others_first()


async def _freed_last(rows: list[Any]) -> int:
    """Takes the last of them away, those in a list that it holds before it; returns how many that were."""
    row = rows[-1]
    if type(row) is not tuple and type(row) is not list:
        del row, rows[-_FREED_AT_ONCE:]
        return _FREED_AT_ONCE
    done = 1
    for inner in row if type(row) is tuple else (row,):
        if type(inner) is list:
            done += len(inner)
            if len(inner) > ROWS_AT_ONCE:
                await freed(inner)
    rows.pop()
    return done

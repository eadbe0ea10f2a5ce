"""Long work on an event loop: it pauses when the loop's budget is spent, and the other work of the loop has its turn.

All long work of one loop shares one budget of processor time for each turn of the loop, so a caller needs no limit of
its own. A loop over one request, whose rows have a ceiling, needs no pause.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from tailrace.processor_time import monotonic_ms, thread_time_ms
from tailrace.steps import Steps

_BUDGET_MS: Final = 2.0
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")


async def turns(rows: Iterable[_Row]) -> AsyncIterator[_Row]:
    """Yields the rows, with a pause before a row wherever the budget is spent."""
    budget = _budget()
    for row in rows:
        if budget.is_spent():
            await budget.pause()
        yield row


async def in_turns(steps: Steps[_Result]) -> _Result:
    """Returns the result of the steps, with a pause between two of them wherever the budget is spent."""
    budget = _budget()
    while True:
        if budget.is_spent():
            await budget.pause()
        try:
            next(steps)
        except StopIteration as ended:
            result: _Result = ended.value
            return result


class _Budget:
    """The processor time that long work may spend in one turn of an event loop, and the work that waits for a turn.

    A turn counts from the first work in it. Of the waiting work one goes on in each turn, the longest waiting first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._began_ms: float | None = None  # None: no work in this turn yet
        self._look_at_ms = 0.0  # by the monotonic clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    def is_spent(self) -> bool:
        """Whether work must pause before it goes on."""
        # Processor time passes no faster than the monotonic clock, which costs a tenth to read.
        now_ms = monotonic_ms()
        if now_ms < self._look_at_ms:
            return False
        left_ms = _BUDGET_MS - self._used_ms()
        self._look_at_ms = now_ms + left_ms
        return left_ms <= 0

    async def pause(self) -> None:
        """Waits for a later turn, in the order of the calls."""
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        self._schedule()
        await waiting
        self._used_ms()  # counts from here

    def _used_ms(self) -> float:
        now_ms = thread_time_ms()
        if self._began_ms is None:
            self._began_ms = now_ms
            self._schedule()
        return now_ms - self._began_ms

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled, self._began_ms, self._look_at_ms = False, None, 0.0
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():  # it is done if its task was cancelled
                waiting.set_result(None)
                self._schedule()  # for those behind it
                return


_BUDGETS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Budget]] = WeakKeyDictionary()


def _budget() -> _Budget:
    loop = asyncio.get_running_loop()
    budget = _BUDGETS.get(loop)
    if budget is None:
        budget = _BUDGETS[loop] = _Budget(loop)
    return budget

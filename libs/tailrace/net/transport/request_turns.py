"""How many requests of all connections together one turn of the event loop handles; the rest waits in a queue.

A socket may bring hundreds of requests at once, and a loop reads all sockets that are ready before it turns to its
timers. So a connection whose turn is over waits behind the others that wait, and goes on in that order.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from tailrace.net.transport.event_budget import EventBudget

WEIGHT_SHIFT: Final = 9  # a request counts as one event, and as one more for each 512 bytes: its rows take the time


class WaitingConnection(Protocol):
    """A connection with whole requests that are not handled yet."""

    def go_on(self) -> None:
        """Handles at least one of them, if that may be now."""


class RequestTurns:
    """The budget of each turn, and the connections that wait for one, longest waiting first."""

    __slots__ = ("_call_soon", "_scheduled", "_waiting", "budget")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """call_soon: the event loop's."""
        self.budget = EventBudget(call_soon)
        self._call_soon = call_soon
        self._waiting: OrderedDict[WaitingConnection, None] = OrderedDict()
        self._scheduled = False

    def over(self) -> bool:
        """Whether a connection has to wait before its next request; to be asked where budget.left is below 0."""
        return self.budget.look() or bool(self._waiting)

    def wait(self, connection: WaitingConnection) -> None:
        """It goes on in a later turn of the loop."""
        self._waiting[connection] = None
        self._schedule()

    def forget(self, connection: WaitingConnection) -> None:
        """It does not wait any more."""
        self._waiting.pop(connection, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        budget, waiting = self.budget, self._waiting
        try:
            for _ in range(len(waiting)):
                if not waiting or (budget.left < 0 and budget.look()):
                    break
                waiting.popitem(last=False)[0].go_on()
        finally:  # a bug with one connection must not leave the others waiting
            if waiting:
                self._schedule()


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, RequestTurns]] = WeakKeyDictionary()


def request_turns() -> RequestTurns:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    turns = _TURNS.get(loop)
    if turns is None:
        turns = _TURNS[loop] = RequestTurns(_call_soon)
    return turns


def _call_soon(work: Callable[[], None]) -> None:
    """Of the running loop, which nothing here keeps alive."""
    asyncio.get_running_loop().call_soon(work)

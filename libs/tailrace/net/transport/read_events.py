"""When a socket has something to read, within what one turn of the event loop has room for.

A loop tells of all sockets that are ready, however many these are, before it turns to anything else. So it watches
one socket that stands for all of them, an epoll, from which a turn takes as many as it has room for (event_budget.py).
What has come stays in the sockets meanwhile, so nothing is kept here. That costs a system call more, which is much
where one socket is ready at a time: a few that come in that way again and again are watched by the loop itself.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from tailrace.net.transport.event_budget import EVENTS_A_LOOK, EventBudget

_MOST_DIRECT: Final = 128  # to move all of them, when they come at once, takes no more than a millisecond
_FEW: Final = 4  # with more at a time the system call does not count
_OFTEN: Final = 16


class ReadEvents:
    """Calls `read` for a socket of the running loop from start to stop; both may be called inside `read`."""

    __slots__ = ("_budget", "_fd", "_loop", "_poll", "few", "on", "polled", "read")

    def __init__(self, fd: int, read: Callable[[], None], poll: BoundedPoll | None = None) -> None:
        """fd: of a socket that does not block; close is to be called before it is closed."""
        self._loop = asyncio.get_running_loop()
        self._poll = bounded_poll() if poll is None else poll
        self._budget = self._poll.direct_budget
        self._fd = fd
        self.read = read
        self.on = False
        self.polled = True  # not watched by the loop itself
        self.few = 0  # how often it came with few others, or alone

    def start(self) -> None:
        """From the next turn on."""
        if self.on:
            return
        self.on = True
        if self.polled:
            self._poll.add(self._fd, self)
        else:
            self._loop.add_reader(self._fd, self._ready)

    def stop(self) -> None:
        """Does not call it any more."""
        if not self.on:
            return
        self.on = False
        if self.polled:
            self._poll.remove(self._fd)
        else:
            self._loop.remove_reader(self._fd)

    def close(self) -> None:
        """Neither now nor later: the socket is to be closed, and what reads from it may be freed. May come twice."""
        self.stop()
        self.read = _nothing
        if not self.polled:
            self.polled = True
            self._poll.no_more_direct(self)

    def woke(self) -> None:
        """To be called in `read` where that wakes a task: the next turn has that to do."""
        self._poll.woke(polled=self.polled)

    def move(self, *, polled: bool) -> None:
        """Goes on in the other place."""
        was_on = self.on
        self.stop()
        self.polled, self.few = polled, 0
        if was_on:
            self.start()

    def _ready(self) -> None:
        budget = self._budget
        budget.left -= 1
        if budget.left < 0 and budget.look():
            self._poll.no_more_direct(self)
            self.move(polled=True)
        else:
            self.read()


def _nothing() -> None:
    raise AssertionError("a closed socket has nothing to read")


class BoundedPoll:
    """The sockets of one event loop. The system tells of what is ready in turns: who was told of comes last again."""

    def __init__(self, direct_budget: EventBudget, budget: EventBudget) -> None:
        """direct_budget: for sockets that the loop itself watches; budget: for those that are polled."""
        self.direct_budget = direct_budget
        self._budget = budget
        self._epoll: select.epoll | None = None
        self._polled: dict[int, ReadEvents] = {}
        self._direct: dict[ReadEvents, None] = {}  # oldest first

    def add(self, fd: int, events: ReadEvents) -> None:
        """From the next turn on."""
        if self._epoll is None:
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._ready)
        self._polled[fd] = events
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Not even what is ready now has its turn."""
        assert self._epoll is not None
        del self._polled[fd]
        self._epoll.unregister(fd)

    def no_more_direct(self, events: ReadEvents) -> None:
        """The loop does not watch it any more: there is room for another."""
        del self._direct[events]

    def woke(self, *, polled: bool) -> None:
        """An event has woken a task."""
        (self._budget if polled else self.direct_budget).woke()

    def _ready(self) -> None:
        assert self._epoll is not None
        budget = self._budget
        while not budget.spent:
            found = self._epoll.poll(0, EVENTS_A_LOOK)
            for fd, _ in found:
                if (events := self._polled.get(fd)) is not None:  # else an event before this one has stopped it
                    events.read()
                    if len(found) <= _FEW:
                        self._came_with_few(events)
            budget.left -= len(found)
            if len(found) < EVENTS_A_LOOK or (budget.left < 0 and budget.look()):
                return

    def _came_with_few(self, events: ReadEvents) -> None:
        events.few += 1
        if events.few < _OFTEN or not events.on:
            return
        if len(self._direct) == _MOST_DIRECT:
            oldest = next(iter(self._direct))
            self.no_more_direct(oldest)
            oldest.move(polled=True)
        self._direct[events] = None
        events.move(polled=False)


_POLLS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, BoundedPoll]] = WeakKeyDictionary()


def bounded_poll() -> BoundedPoll:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    poll = _POLLS.get(loop)
    if poll is None:
        poll = _POLLS[loop] = BoundedPoll(EventBudget(_call_soon), EventBudget(_call_soon))
    return poll


def _call_soon(work: Callable[[], None]) -> None:
    """Of the running loop, which nothing here keeps alive."""
    asyncio.get_running_loop().call_soon(work)

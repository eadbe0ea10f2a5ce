"""The memory of one role for large answers, from before they are encoded or received until their clients have them.

A large request of a client takes from it before it is decoded, and its answer takes that over: rows are ten to forty
times as large as their bytes, and a request may wait with them for records, or for replicas.

Where the budget is used up the next answer waits for its turn before anything of it is made. An answer that comes in
parts does not wait again: it would keep what the others wait for. While one waits, a client that has not taken its
answer within 30 s gives way with its connection; so does one whose large request was not answered within them.

Answers of Produce and Fetch do not wait: what of them a client does not take is counted when that is seen. Where it
makes more than twice the budget, the client that has taken nothing for longest gives way at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

MOST_BYTES: Final = 128 * 1024 * 1024
OWN_BYTES: Final = 65_536  # an answer of so much is not counted
NOT_KNOWN_BYTES: Final = 16 * 1024 * 1024  # kept for one that is not encoded yet
TAKEN_WITHIN_MS: Final = 30_000.0
_LOOK_MS: Final = 1_000.0
_MOST_TIMES: Final = 2  # the budget, with what is not taken
_ROW_TIMES: Final = 40  # a row of 16 bytes takes some 650 while it is answered


class AnswerHolder(Protocol):
    """A connection, as its answers' memory sees it."""

    def give_way(self, why: str) -> None:
        """It must go."""


def of_rows(body_bytes: int, times: int = _ROW_TIMES) -> int:
    """What the rows of a request of so many bytes may take, its answer's with them."""
    return min(times * body_bytes, NOT_KNOWN_BYTES)


class AnswerMemory:
    """What is held by connection."""

    def __init__(self, most_bytes: int = MOST_BYTES, monotonic_ms: Callable[[], float] | None = None) -> None:
        self.held_bytes = 0
        self.max_bytes = most_bytes
        self.waited_count = 0
        self.gave_way_count = 0
        self._monotonic_ms = monotonic_ms or (lambda: asyncio.get_running_loop().time() * 1000)
        self._held: dict[AnswerHolder, tuple[int, float]] = {}  # bytes, and since when
        self._untaken: dict[AnswerHolder, None] = {}  # holders whose clients take nothing, for longest first
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """How many answers wait."""
        return len(self._waiting)

    async def room(self, holder: AnswerHolder, size_bytes: int = NOT_KNOWN_BYTES) -> None:
        """Returns when an answer of so many bytes may be made, and holds them. One above the budget comes alone."""
        if size_bytes <= OWN_BYTES:
            return
        if holder not in self._held and (self._waiting or not self._fits(size_bytes)):
            await self._turn(size_bytes)
        self._set(holder, self._bytes_of(holder) + size_bytes)

    def hold(self, holder: AnswerHolder, size_bytes: int) -> None:
        """The answer is there, and has that size."""
        if size_bytes <= OWN_BYTES:
            self.give_back(holder)
            return
        self._set(holder, size_bytes)
        self._go_on()

    def untaken(self, holder: AnswerHolder, size_bytes: int) -> None:
        """So many bytes of its answers were written, and the client takes none of them now."""
        if size_bytes <= OWN_BYTES:
            return
        self._untaken.setdefault(holder)
        self._set(holder, max(size_bytes, self._bytes_of(holder)))
        while self.held_bytes > _MOST_TIMES * self.max_bytes and len(self._untaken) > 1:
            slowest = next(iter(self._untaken))
            self.give_back(slowest)
            self.gave_way_count += 1
            slowest.give_way("its answers were not taken, and there was no memory for those of others")

    def taken(self, holder: AnswerHolder) -> None:
        """The client takes its answers again."""
        self._untaken.pop(holder, None)

    def give_back(self, holder: AnswerHolder) -> None:
        """The client has its answer, or is gone."""
        self._untaken.pop(holder, None)
        if self._held:
            size_bytes, _ = self._held.pop(holder, (0, 0.0))
            self.held_bytes -= size_bytes
            self._go_on()

    def overdue(self) -> list[AnswerHolder]:
        """The holders whose clients must give way to those that wait."""
        since_ms = self._monotonic_ms() - TAKEN_WITHIN_MS
        return [holder for holder, (_, began_ms) in self._held.items() if began_ms < since_ms]

    def _bytes_of(self, holder: AnswerHolder) -> int:
        return self._held[holder][0] if holder in self._held else 0

    def _set(self, holder: AnswerHolder, size_bytes: int) -> None:
        known, began_ms = self._held.get(holder, (0, self._monotonic_ms()))
        self.held_bytes += size_bytes - known
        self._held[holder] = size_bytes, began_ms

    def _fits(self, size_bytes: int) -> bool:
        return not self.held_bytes or self.held_bytes + size_bytes <= self.max_bytes

    async def _turn(self, size_bytes: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        entry = size_bytes, turn
        self._waiting.append(entry)
        self.waited_count += 1
        self._watch()
        try:
            await turn
        except BaseException:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif not turn.cancelled():  # it had its turn in the same moment
                self.held_bytes -= size_bytes
            self._go_on()
            raise
        self.held_bytes -= size_bytes  # which _go_on kept until here

    def _go_on(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size_bytes, turn = self._waiting.popleft()
            if not turn.done():
                self.held_bytes += size_bytes
                turn.set_result(None)

    def _watch(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_MS / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        for holder in self.overdue():
            self.gave_way_count += 1
            holder.give_way("it kept memory for too long, and others wait for it")
        self._watch()

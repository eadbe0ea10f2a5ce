"""Every timer of the role in one heap behind one timer of the clock.

A deadline that moves later (each heartbeat moves one) costs no new heap entry: its entry looks again when it comes up.
Of thousands that are due at once, as when all members of a group fall silent, some are told in each turn.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable

from tailrace.clock import Cancellable, Clock
from tailrace.state import ANSWERS_AT_ONCE, ROWS_AT_ONCE, Timer


class Deadlines:
    """Deadlines by (owner, key); fires `due(key)` of the owner's callback."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_ms: dict[Callable[[Hashable], None], dict[Hashable, float]] = {}
        self._heap: list[tuple[float, int, Callable[[Hashable], None], Hashable]] = []
        self._queued: dict[tuple[Callable[[Hashable], None], Hashable], float] = {}
        self._order = itertools.count()
        self._timer: Cancellable | None = None
        self._timer_at_ms = 0.0

    def __len__(self) -> int:
        return sum(len(deadlines) for deadlines in self._at_ms.values())

    @property
    def entries(self) -> int:
        """Entries of the heap, with those of deadlines that were moved or cancelled since."""
        return len(self._heap)

    def take(self, due: Callable[[Hashable], None], timers: Iterable[Timer]) -> None:
        """Sets and cancels the deadlines of one decision."""
        now_ms = self._clock.monotonic_ms()
        deadlines, queued = self._at_ms.setdefault(due, {}), self._queued
        for key, delay_ms in timers:
            if delay_ms is None:
                deadlines.pop(key, None)
                continue
            deadlines[key] = at_ms = now_ms + delay_ms
            queued_ms = queued.get((due, key))
            if queued_ms is None or queued_ms > at_ms:
                self._push(at_ms, due, key)
        self._arm()

    def forget(self, due: Callable[[Hashable], None]) -> None:
        """Cancels everything of one owner."""
        self._at_ms.pop(due, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at_ms.clear()
        self._heap.clear()

    def _push(self, at_ms: float, due: Callable[[Hashable], None], key: Hashable) -> None:
        self._queued[due, key] = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._order), due, key))

    def _arm(self) -> None:
        if not self._heap or (self._timer is not None and self._timer_at_ms <= self._heap[0][0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = self._heap[0][0]
        self._timer = self._clock.call_later(max(0.0, self._timer_at_ms - self._clock.monotonic_ms()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        fired: list[tuple[Callable[[Hashable], None], Hashable]] = []
        looked = 0
        while self._heap and self._heap[0][0] <= now_ms and len(fired) < ANSWERS_AT_ONCE and looked < ROWS_AT_ONCE:
            looked += 1
            queued_ms, _, due, key = heapq.heappop(self._heap)
            if self._queued.get((due, key)) != queued_ms:
                continue
            del self._queued[due, key]
            at_ms = self._at_ms.get(due, {}).get(key)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                self._push(at_ms, due, key)
            else:
                del self._at_ms[due][key]
                fired.append((due, key))
        self._arm()  # first, so that whatever a callback does the next deadline stands
        for due, key in fired:
            due(key)

"""Requests that wait for data or a deadline: one heap of deadlines, one timer, waiters woken once per loop tick.

acks=all waits are many, short, and have deadlines far away: they stand in lines, one for each timeout, where those that
are done leave with the next that comes. In the heap they would stay until their deadlines.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tailrace.clock import Cancellable, Clock


class Wait(Protocol):
    """A parked request. try_complete answers it if it can now; expire answers it with what there is."""

    done: bool

    def try_complete(self) -> None: ...

    def expire(self) -> None: ...


class Purgatory:
    """Kafka's DelayedOperationPurgatory, smaller: keys are partitions that hold a set of waiters."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._heap: list[tuple[float, int, Wait]] = []
        self._order = 0
        self._timer: Cancellable | None = None
        self._timer_at_ms = 0.0
        self._dirty: set[Any] = set()
        self._lines: dict[float, deque[tuple[float, Wait]]] = {}

    def park(self, wait: Wait, keys: Iterable[Any], max_wait_ms: float) -> None:
        """Lets `wait` sleep until one of the keys is marked or max_wait_ms passed."""
        for key in keys:
            key.waiters.add(wait)
        self._order += 1
        at_ms = self._clock.monotonic_ms() + max_wait_ms
        heapq.heappush(self._heap, (at_ms, self._order, wait))
        self._arm()

    def line_up(self, wait: Wait, max_wait_ms: float) -> None:
        """Lets `wait` expire after max_wait_ms unless somebody has completed it by then."""
        at_ms = self._clock.monotonic_ms() + max_wait_ms
        line = self._lines.get(max_wait_ms)
        if line is None:
            line = self._lines[max_wait_ms] = deque()
            self._clock.call_later(max_wait_ms, lambda: self._expire_line(max_wait_ms))
        while line and line[0][1].done:
            line.popleft()
        line.append((at_ms, wait))

    @property
    def in_line(self) -> int:
        """How many produce requests wait for their replicas."""
        return sum(not wait.done for line in self._lines.values() for _, wait in line)

    def _expire_line(self, max_wait_ms: float) -> None:
        line, now_ms = self._lines[max_wait_ms], self._clock.monotonic_ms()
        while line and (line[0][1].done or line[0][0] <= now_ms):
            wait = line.popleft()[1]
            if not wait.done:
                wait.expire()
        if line:
            self._clock.call_later(max(0.0, line[0][0] - now_ms), lambda: self._expire_line(max_wait_ms))
        else:
            del self._lines[max_wait_ms]

    def mark(self, key: Any) -> None:
        """The key has news: its waiters are woken at the end of this loop tick."""
        if key.waiters:
            if not self._dirty:
                self._call_soon(self._wake)
            self._dirty.add(key)

    def __len__(self) -> int:
        return sum(not wait.done for _, _, wait in self._heap)

    def _wake(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for key in dirty:
            for wait in list(key.waiters):
                if wait.done:
                    key.waiters.discard(wait)
                else:
                    wait.try_complete()

    def _arm(self) -> None:
        while self._heap and self._heap[0][2].done:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        at_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._clock.call_later(max(0.0, at_ms - self._clock.monotonic_ms()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            wait = heapq.heappop(self._heap)[2]
            if not wait.done:
                wait.expire()
        self._arm()

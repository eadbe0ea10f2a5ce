"""Requests that wait for data or a deadline: one heap of deadlines, one timer, waiters woken once per loop tick.

acks=all waits are many, short, and have deadlines far away: they stand in lines, one for each timeout, where those that
are done leave with the next that comes. Timeouts are the clients' own, so neither the lines nor what is done and cannot
leave yet may grow with them: beyond a number of lines timeouts are rounded up, and who is done is swept out (Kafka's
purgatory purges, too).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, Protocol

from tailrace.clock import Cancellable, Clock
from tailrace_broker.waiting.operation import DelayedOperation, Waiter

_EXACT_LINES: Final = 64  # timeouts that are kept to the millisecond; others may be a sixteenth longer
_FEW: Final = 256  # done or not, so many cost nobody anything


class Waited(Protocol):
    """What may have news: a partition, or the end of its log."""

    @property
    def waiters(self) -> set[Waiter]: ...


class _Line:
    """Who waits equally long, in the order of their deadlines; at sweep_at of them those that are done go."""

    __slots__ = ("sweep_at", "waits")

    def __init__(self) -> None:
        self.waits: deque[tuple[float, DelayedOperation]] = deque()
        self.sweep_at = _FEW


class Purgatory:
    """Kafka's DelayedOperationPurgatory, smaller: keys are partitions that hold a set of waiters."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._heap: list[tuple[float, int, DelayedOperation]] = []
        self._order = 0
        self._timer: Cancellable | None = None
        self._timer_at_ms = 0.0
        self._dirty: set[Waited] = set()
        self._sweep_at = _FEW  # of the heap
        self._lines: dict[float, _Line] = {}

    def park(self, wait: DelayedOperation, keys: Iterable[Waited], max_wait_ms: float) -> None:
        """Lets `wait` sleep until one of the keys is marked or max_wait_ms passed."""
        for key in keys:
            key.waiters.add(wait)
        self._order += 1
        at_ms = self._clock.monotonic_ms() + max_wait_ms
        heapq.heappush(self._heap, (at_ms, self._order, wait))
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapq.heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + _FEW
        self._arm()

    def line_up(self, wait: DelayedOperation, max_wait_ms: float) -> None:
        """Lets `wait` expire after max_wait_ms unless somebody has completed it by then."""
        line = self._lines.get(max_wait_ms)
        if line is None:
            if len(self._lines) >= _EXACT_LINES:
                max_wait_ms = _rounded_up(max_wait_ms)
            line = self._lines.get(max_wait_ms)
        if line is None:
            line = self._lines[max_wait_ms] = _Line()
            self._clock.call_later(max_wait_ms, lambda: self._expire_line(max_wait_ms))
        waits = line.waits
        while waits and waits[0][1].done:
            waits.popleft()
        waits.append((self._clock.monotonic_ms() + max_wait_ms, wait))
        if len(waits) >= line.sweep_at:
            line.waits = deque([entry for entry in waits if not entry[1].done])
            line.sweep_at = 2 * len(line.waits) + _FEW

    def count(self, kind: type) -> int:
        """How many of a kind wait."""
        parked, lines = (entry[2] for entry in self._heap), self._lines.values()
        waits = chain(parked, (wait for line in lines for _, wait in line.waits))
        return sum(isinstance(wait, kind) and not wait.done for wait in waits)

    def _expire_line(self, max_wait_ms: float) -> None:
        line, now_ms = self._lines[max_wait_ms], self._clock.monotonic_ms()
        while (waits := line.waits) and (waits[0][1].done or waits[0][0] <= now_ms):
            wait = waits.popleft()[1]
            if not wait.done:
                wait.expire()  # which may have others line up
        if waits:
            self._clock.call_later(max(0.0, waits[0][0] - now_ms), lambda: self._expire_line(max_wait_ms))
        else:
            del self._lines[max_wait_ms]

    def mark(self, key: Waited) -> None:
        """The key has news: its waiters are woken at the end of this loop tick."""
        if key.waiters:
            if not self._dirty:
                self._call_soon(self._wake)
            self._dirty.add(key)

    def _wake(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for key in dirty:
            for wait in list(key.waiters):
                if wait.done:
                    key.waiters.discard(wait)
                else:
                    wait.try_complete(key)

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


def _rounded_up(wait_ms: float) -> float:
    """To five significant bits, so that there are a few hundred different ones at most."""
    step = 1 << max(0, int(wait_ms).bit_length() - 5)
    return -(-wait_ms // step) * step

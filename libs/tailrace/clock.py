"""The clock port: time is an argument everywhere else. Pure.

Only runtime/clock.py reads a real clock. Timers exist for backoff, heartbeats, leases and deadlines; nothing waits for
a state by sleeping.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Generator
from typing import Protocol


class Cancellable(Protocol):
    """A timer that has not fired yet."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time for what people read, monotonic time for what is measured; both in milliseconds."""

    def wall_ms(self) -> int: ...

    def monotonic_ms(self) -> float: ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable: ...

    async def sleep(self, delay_ms: float) -> None: ...


class _Timer:
    __slots__ = ("at_ms", "callback", "order")

    def __init__(self, at_ms: float, order: int, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.order = order
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: _Timer) -> bool:
        return (self.at_ms, self.order) < (other.at_ms, other.order)

    def cancel(self) -> None:
        self.callback = None


class _Sleep(Awaitable[None]):
    """Yields to the loop until the manual clock passed the deadline; needs no event loop of its own."""

    def __init__(self, clock: ManualClock, at_ms: float) -> None:
        self.clock = clock
        self.at_ms = at_ms

    def __await__(self) -> Generator[None, None, None]:
        while self.clock.monotonic_ms() < self.at_ms:
            yield


class ManualClock:
    """The clock's twin for tests and simulation: time passes when a test says so."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic_ms = 0.0
        self._timers: list[_Timer] = []
        self._order = 0

    def wall_ms(self) -> int:
        return int(self._wall_ms)

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        self._order += 1
        timer = _Timer(self._monotonic_ms + delay_ms, self._order, callback)
        heapq.heappush(self._timers, timer)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        await _Sleep(self, self._monotonic_ms + delay_ms)

    def advance(self, delay_ms: float) -> None:
        """Moves both clocks and fires what is due, in order of deadline."""
        end_ms = self._monotonic_ms + delay_ms
        while self._timers and self._timers[0].at_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            step_ms = max(0.0, timer.at_ms - self._monotonic_ms)
            self._monotonic_ms += step_ms
            self._wall_ms += step_ms
            if timer.callback is not None:
                timer.callback()
        self._wall_ms += end_ms - self._monotonic_ms
        self._monotonic_ms = end_ms

    def jump(self, delta_ms: float) -> None:
        """Moves the wall clock alone, as an operator or NTP does."""
        self._wall_ms += delta_ms

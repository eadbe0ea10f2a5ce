"""How long the requests of one connection take: from the turn that reads them until their answers are written.

A connection answers in the order of its requests, so that one list of what is owed is enough. The clock is read twice a
turn, not twice a request; a request costs a tuple and a look for its bucket.
"""

from __future__ import annotations

from typing import Final

from tailrace.net.requests.metrics import RequestMetrics

_UNCOUNTED: Final = -1


class Turn:
    """When the requests of one read were handled; in milliseconds of the monotonic clock, 0 until it has ended."""

    __slots__ = ("began_ms", "ended_ms")

    def __init__(self, began_ms: float) -> None:
        self.began_ms = began_ms
        self.ended_ms = 0.0


class RequestTimes:
    """One connection's requests that are not answered."""

    __slots__ = ("_metrics", "_owed", "_turn")

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        self._owed: list[tuple[int, Turn]] = []
        self._turn = Turn(0.0)

    def begin(self) -> None:
        """A turn begins: requests may be handled."""
        now_ms = self._metrics.now_ms()
        if self._owed:
            self._turn = Turn(now_ms)
        else:  # no request has the last one any more
            self._turn.began_ms, self._turn.ended_ms = now_ms, 0.0

    def end(self) -> None:
        """The turn is over; what is owed now waits for something."""
        if self._owed:
            self._turn.ended_ms = self._metrics.now_ms()

    def handle(self, api_key: int, *, answers: bool = True) -> None:
        """Counts a request that is handled in this turn; a Produce with acks=0 has no answer."""
        self._metrics.counts[api_key] += 1
        if answers:
            self._owed.append((api_key, self._turn))
        else:
            self._metrics.observe(api_key, self._turn.began_ms, 0.0, self._metrics.now_ms())

    def pass_over(self) -> None:
        """A request that has an answer here, and is counted elsewhere or not at all."""
        self._owed.append((_UNCOUNTED, self._turn))

    def forget_newest(self) -> None:
        """The newest request that was owed an answer gets none after all."""
        self._owed.pop()

    def answered(self, count: int) -> None:
        """So many of the oldest requests have their answers."""
        metrics, owed = self._metrics, self._owed
        now_ms = metrics.now_ms()
        for api_key, turn in owed[:count]:
            if api_key != _UNCOUNTED:
                metrics.observe(api_key, turn.began_ms, turn.ended_ms, now_ms)
        del owed[:count]

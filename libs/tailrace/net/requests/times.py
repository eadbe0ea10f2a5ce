"""How long the requests of one connection take: from the turn that reads them until their answers are written.

A connection answers in the order of its requests, so that one list of what is owed is enough. The clock is read twice a
turn, not twice a request; a request costs a tuple and a look for its bucket.
"""

from __future__ import annotations

from typing import Final

from tailrace.net.requests.metrics import RequestMetrics, Turn

_UNCOUNTED: Final = -1


class RequestTimes:
    """One connection's requests that are not answered."""

    __slots__ = ("_metrics", "_owed", "_queued_ms", "_turn")

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        self._owed: list[tuple[int, Turn]] = []
        self._queued_ms = 0.0  # the end of the last turn, if that left whole requests for the next one
        self._turn = Turn(0.0, 0.0)

    def begin(self) -> None:
        """A turn begins: requests may be handled."""
        now_ms = self._metrics.now_ms()
        read_ms, turn = self._queued_ms or now_ms, self._turn
        if self._owed:
            self._turn = Turn(read_ms, now_ms)
        else:  # no request has the last one any more
            turn.read_ms, turn.began_ms, turn.ended_ms = read_ms, now_ms, 0.0

    def end(self, *, handled: bool = True, left: bool = False) -> None:
        """The turn is over; what is owed now waits for something.

        left: whole requests wait until others have had their turn; handled: this turn was one, and not a look at that.
        """
        if self._owed or left:
            now_ms = self._metrics.now_ms()
            self._turn.ended_ms = now_ms
            self._queued_ms = 0.0 if not left else now_ms if handled else self._queued_ms or now_ms
        else:
            self._queued_ms = 0.0

    def handle(self, api_key: int, *, answers: bool = True) -> None:
        """Counts a request that is handled in this turn; a Produce with acks=0 has no answer."""
        self._metrics.counts[api_key] += 1
        if answers:
            self._owed.append((api_key, self._turn))
        else:
            self._metrics.observe(api_key, self._turn, self._metrics.now_ms())

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
                metrics.observe(api_key, turn, now_ms)
        del owed[:count]

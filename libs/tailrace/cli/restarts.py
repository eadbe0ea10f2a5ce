"""When a dead child comes back: at once, then after a growing pause; never-ready children are given up."""

from __future__ import annotations

_FIRST_PAUSE_MS = 100.0
_LONGEST_PAUSE_MS = 10_000.0
_SETTLED_MS = 10_000.0
DEATHS_MAX = 5


class Restarts:
    """The deaths of one child. Time is an argument, in milliseconds."""

    __slots__ = ("deaths", "ever_ready", "ready_at_ms")

    def __init__(self) -> None:
        self.deaths = 0
        self.ever_ready = False
        self.ready_at_ms: float | None = None

    def ready(self, now_ms: float) -> None:
        self.ever_ready = True
        self.ready_at_ms = now_ms

    def died(self, now_ms: float) -> float | None:
        """Returns the pause before the next start, None to give up: five deaths in a row and never once ready."""
        if self.ready_at_ms is not None and now_ms - self.ready_at_ms >= _SETTLED_MS:
            self.deaths = 0
        self.ready_at_ms = None
        self.deaths += 1
        if not self.ever_ready and self.deaths >= DEATHS_MAX:
            return None
        if self.deaths == 1:
            return 0.0
        return float(min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS * 2 ** (self.deaths - 2)))

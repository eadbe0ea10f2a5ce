"""How much of what sockets bring is handled in one turn of the event loop; the rest has its turn in the next ones.

What one socket brings takes some microseconds. But a loop comes back to its timers when it has handled all that is
there: thousands of clients that are answered or that close in one moment would hold it for a tenth of a second.

An event may wake a task, which has its turn later and may take much longer than the event. So while budgets are spent
whole turns are measured, and the next ones have room for fewer events where these took long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.processor_time import thread_time_ms

EVENTS_A_LOOK: Final = 16  # a look at the time costs as much as a small part of an event
_OF_A_TASK: Final = 4  # one that wakes a task counts for so many
_FIRST_LOOKS: Final = 2
_MOST_LOOKS: Final = 24
_MOST_MS: Final = 2.0  # of processor time, for the events alone
_LONG_TURN_MS: Final = 5.0  # with the tasks that the events before it have woken


class EventBudget:
    """For the events of one kind."""

    __slots__ = ("_began_ms", "_call_soon", "_looks", "_marked", "_most_looks", "_used_ms", "_whole", "left", "spent")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], used_ms: Callable[[], float] = thread_time_ms
    ) -> None:
        """call_soon: the event loop's; used_ms: the processor time of its thread."""
        self._call_soon = call_soon
        self._used_ms = used_ms
        self.left = EVENTS_A_LOOK  # until the next look; each event takes one
        self.spent = False  # nothing more is to be handled in this turn
        self._looks = 0
        self._most_looks = _FIRST_LOOKS
        self._marked = False  # whether the next turn begins with _next_turn
        self._began_ms = 0.0
        self._whole = False  # whether that was the beginning of a turn

    def woke(self) -> None:
        """The event at hand has woken a task."""
        self.left -= _OF_A_TASK - 1

    def look(self) -> bool:
        """To be asked where less than none is left: whether the budget is spent, or there is room for some more."""
        if self.spent:
            return True
        if not self._marked:
            self._marked, self._began_ms = True, self._used_ms()
            self._call_soon(self._next_turn)
        elif self._looks >= self._most_looks or self._used_ms() - self._began_ms > _MOST_MS:
            self.spent = True
            return True
        self._looks += 1
        self.left = EVENTS_A_LOOK - 1
        return False

    def _next_turn(self) -> None:
        """Goes on turn by turn as long as each spends the budget."""
        now_ms = self._used_ms()
        if self._whole:
            self._learn(now_ms - self._began_ms)
        self._whole = self._marked = self.spent
        self.left, self._looks, self.spent = EVENTS_A_LOOK, 0, False
        if self._marked:
            self._began_ms = now_ms
            self._call_soon(self._next_turn)

    def _learn(self, took_ms: float) -> None:
        if took_ms > _LONG_TURN_MS:
            self._most_looks //= 2
        elif self._most_looks < _MOST_LOOKS:
            self._most_looks += 1

"""What one turn of the loop has room for, and how it learns that."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tailrace.net.transport.event_budget import EventBudget


class Turns:
    """A loop whose turns the test begins, and a processor that works as long as the test says."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], None]] = deque()
        self.used_ms = 0.0
        self.budget = EventBudget(self.ready.append, lambda: self.used_ms)

    def turn(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def events(self, each_ms: float = 0.0, most: int = 10_000) -> int:
        """How many there is room for in this turn."""
        for number in range(most):
            self.budget.left -= 1
            if self.budget.left < 0 and self.budget.look():
                return number
            self.used_ms += each_ms
        return most


def test_a_turn_has_room_for_some_events_and_the_next_turn_again() -> None:
    turns = Turns()
    first = turns.events()
    assert 16 <= first <= 64
    assert turns.events() == 0, "and for no more"
    turns.turn()
    assert turns.events() == first


def test_events_that_take_long_are_fewer() -> None:
    assert Turns().events(each_ms=1.0) <= 32


def test_an_event_that_wakes_a_task_counts_for_several() -> None:
    turns, woke = Turns(), 0
    while True:
        turns.budget.left -= 1
        if turns.budget.left < 0 and turns.budget.look():
            break
        turns.budget.woke()
        woke += 1
    assert 0 < woke <= Turns().events() // 2


def test_few_events_a_turn_never_spend_it_and_ask_the_loop_for_little() -> None:
    turns, asked = Turns(), 0
    for _ in range(160):
        assert turns.events(most=1) == 1
        asked += len(turns.ready)
        turns.turn()
    assert asked <= 10


def test_nothing_runs_in_a_loop_that_is_idle_again() -> None:
    turns = Turns()
    turns.events()
    for _ in range(2):
        turns.turn()
    assert not turns.ready


def test_turns_that_the_tasks_of_events_make_long_have_room_for_fewer_events() -> None:
    turns = Turns()
    counts: list[int] = []
    for took_ms in (0.0,) * 10 + (20.0,) * 10 + (0.0,) * 20:
        counts.append(turns.events())
        turns.used_ms += took_ms
        turns.turn()
    assert counts[9] > counts[0], "short turns have room for more"
    assert 0 < counts[19] < counts[0]
    assert counts[39] >= counts[9]

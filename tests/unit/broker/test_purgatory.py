"""The purgatory: waiters wake on news or at their deadline, once, over one timer."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.clock import ManualClock
from tailrace_broker.purgatory import Purgatory


class Key:
    def __init__(self) -> None:
        self.waiters: set[object] = set()


class Parked:
    def __init__(self, ready: Callable[[], bool] = lambda: True) -> None:
        self.done = False
        self.ready = ready
        self.story: list[str] = []

    def try_complete(self) -> None:
        self.story.append("woken")
        self.done = self.ready()

    def expire(self) -> None:
        self.story.append("expired")
        self.done = True


def purgatory() -> tuple[Purgatory, ManualClock, list[Callable[[], None]]]:
    clock, ticks = ManualClock(), list[Callable[[], None]]()
    return Purgatory(clock, ticks.append), clock, ticks


def test_many_appends_in_a_tick_wake_a_waiter_once() -> None:
    parked, key = Parked(), Key()
    place, _, ticks = purgatory()
    place.park(parked, [key], 500)
    for _ in range(5):
        place.mark(key)
    assert parked.story == []
    assert len(ticks) == 1
    ticks[0]()
    assert parked.story == ["woken"]


def test_a_waiter_that_is_not_satisfied_waits_for_its_deadline() -> None:
    parked, key = Parked(lambda: False), Key()
    place, clock, ticks = purgatory()
    place.park(parked, [key], 500)
    place.mark(key)
    ticks[0]()
    clock.advance(499)
    assert parked.story == ["woken"]
    clock.advance(1)
    assert parked.story == ["woken", "expired"]
    assert len(place) == 0


def test_an_earlier_deadline_moves_the_one_timer() -> None:
    place, clock, _ = purgatory()
    late, soon = Parked(), Parked()
    place.park(late, [Key()], 500)
    place.park(soon, [Key()], 100)
    clock.advance(100)
    assert (soon.story, late.story) == (["expired"], [])
    clock.advance(400)
    assert late.story == ["expired"]


def test_news_nobody_waits_for_costs_no_tick() -> None:
    place, _, ticks = purgatory()
    place.mark(Key())
    assert ticks == []


def test_a_finished_waiter_is_neither_woken_nor_expired_again() -> None:
    parked, key = Parked(), Key()
    place, clock, ticks = purgatory()
    place.park(parked, [key], 500)
    parked.done = True
    place.mark(key)
    ticks[0]()
    clock.advance(1000)
    assert parked.story == []
    assert key.waiters == set()


def test_who_stands_in_line_expires_at_its_own_deadline_and_the_done_leave_with_the_next() -> None:
    place, clock, _ = purgatory()
    waits = [Parked() for _ in range(4)]
    place.line_up(waits[0], 1000)
    clock.advance(400)
    place.line_up(waits[1], 1000)
    place.line_up(waits[2], 500)
    waits[0].done = True
    place.line_up(waits[3], 1000)
    assert place.in_line == 3
    clock.advance(500)
    assert waits[2].story == ["expired"]
    clock.advance(500)
    assert [wait.story for wait in waits] == [[], ["expired"], ["expired"], ["expired"]]
    assert place.in_line == 0
    place.line_up(waits[0], 1000)
    clock.advance(1000)
    assert waits[0].story == [], "done before"

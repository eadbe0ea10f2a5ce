"""The purgatory: waiters wake on news or at their deadline, once, over one timer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tailrace.clock import ManualClock
from tailrace_broker.waiting.operation import DelayedOperation, Waiter
from tailrace_broker.waiting.purgatory import Purgatory


class Key:
    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()


class Parked(DelayedOperation):
    def __init__(self, ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self.ready = ready
        self.story: list[str] = []

    def try_complete(self, key: Any) -> None:
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
    assert place.count(Parked) == 0


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
    assert place.count(Parked) == 3
    clock.advance(500)
    assert waits[2].story == ["expired"]
    clock.advance(500)
    assert [wait.story for wait in waits] == [[], ["expired"], ["expired"], ["expired"]]
    assert place.count(Parked) == 0
    place.line_up(waits[0], 1000)
    clock.advance(1000)
    assert waits[0].story == [], "done before"


def test_timeouts_that_clients_make_up_cost_a_bounded_number_of_lines_and_timers() -> None:
    place, clock, _ = purgatory()
    timers = 0
    later = clock.call_later

    def counted(delay_ms: float, callback: Callable[[], None]) -> Any:
        nonlocal timers
        timers += 1
        return later(delay_ms, callback)

    clock.call_later = counted  # type: ignore[method-assign]
    for number in range(5000):
        parked = Parked()
        place.line_up(parked, 2**31 - 1 - number * 400_000)
        parked.done = True
    assert timers < 600 and place.count(Parked) == 0
    waits = {ms: Parked() for ms in (1, 999, 30_000, 123_457)}
    for ms, parked in waits.items():
        place.line_up(parked, ms)
    for ms, parked in waits.items():
        clock.advance(ms - clock.monotonic_ms() - 1)
        assert parked.story == []
        clock.advance(1 + ms / 16)
        assert parked.story == ["expired"]


@pytest.mark.parametrize("lined_up", [True, False])
def test_who_is_done_does_not_wait_behind_who_is_not(lined_up: bool) -> None:
    place, _, _ = purgatory()
    stuck, refs = Parked(), list[weakref.ref[Parked]]()
    for parked in (stuck, *(Parked() for _ in range(5000))):
        if lined_up:
            place.line_up(parked, 2**31 - 1)
        else:
            place.park(parked, [], 2**31 - 1)
        parked.done = parked is not stuck
        refs.append(weakref.ref(parked))
    del parked
    assert sum(ref() is not None for ref in refs) < 600
    assert place.count(Parked) == 1


def test_each_kind_is_counted_alone() -> None:
    class LinedUp(Parked):
        pass

    place, _, _ = purgatory()
    place.park(Parked(), [], 500)
    place.line_up(LinedUp(), 500)
    place.line_up(LinedUp(), 700)
    assert [place.count(kind) for kind in (LinedUp, Parked)] == [2, 3]

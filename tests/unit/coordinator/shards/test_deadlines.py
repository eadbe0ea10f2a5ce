"""One heap for every timer of the role."""

from collections.abc import Callable, Hashable
from itertools import pairwise

from tailrace.clock import Cancellable, ManualClock
from tailrace.state import Timer
from tailrace_coordinator.shards.deadlines import Deadlines


def test_deadlines_fire_once_in_order() -> None:
    clock, fired = ManualClock(), list[Hashable]()
    deadlines = Deadlines(clock)
    deadlines.take(fired.append, [Timer("b", 20)])
    deadlines.take(fired.append, [Timer("a", 10)])
    clock.advance(9)
    assert fired == []
    clock.advance(100)
    assert fired == ["a", "b"]
    assert len(deadlines) == 0


def test_a_deadline_moves_later_and_earlier() -> None:
    clock, fired = ManualClock(), list[Hashable]()
    deadlines = Deadlines(clock)
    deadlines.take(fired.append, [Timer("later", 10)])
    deadlines.take(fired.append, [Timer("later", 30)])
    deadlines.take(fired.append, [Timer("earlier", 50)])
    deadlines.take(fired.append, [Timer("earlier", 20)])
    clock.advance(25)
    assert fired == ["earlier"]
    clock.advance(5)
    assert fired == ["earlier", "later"]
    clock.advance(100)
    assert fired == ["earlier", "later"]


def test_a_heartbeat_a_second_keeps_one_entry() -> None:
    clock, fired = ManualClock(), list[Hashable]()
    deadlines = Deadlines(clock)
    for _ in range(100):
        deadlines.take(fired.append, [Timer("session", 10_000)])
        clock.advance(1_000)
        assert deadlines.entries == 1
    clock.advance(9_000)
    assert fired == ["session"]


def test_cancelled_and_forgotten_deadlines_do_not_fire() -> None:
    clock, one, other = ManualClock(), list[Hashable](), list[Hashable]()
    deadlines = Deadlines(clock)
    mine, theirs = one.append, other.append
    deadlines.take(mine, [Timer("cancelled", 10)])
    deadlines.take(mine, [Timer("kept", 10)])
    deadlines.take(theirs, [Timer("forgotten", 10)])
    deadlines.take(mine, [Timer("cancelled", None)])
    deadlines.take(mine, [Timer("never set", None)])
    deadlines.forget(theirs)
    clock.advance(20)
    assert (one, other) == (["kept"], [])
    deadlines.take(mine, [Timer("after close", 10)])
    deadlines.close()
    clock.advance(20)
    assert one == ["kept"]


def test_a_callback_may_set_its_deadline_anew() -> None:
    clock, fired = ManualClock(), list[float]()
    deadlines = Deadlines(clock)

    def again(key: Hashable) -> None:
        fired.append(clock.monotonic_ms())
        deadlines.take(again, [Timer(key, 10)])

    deadlines.take(again, [Timer("k", 10)])
    clock.advance(35)
    assert fired == [10, 20, 30]


def test_of_thousands_that_are_due_at_once_some_are_told_in_a_turn() -> None:
    clock, fired = ManualClock(), list[Hashable]()
    told_at = list[int]()  # how many were told before each call of the clock's timer
    deadlines = Deadlines(clock)
    call_later = clock.call_later

    def counted(delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        def call() -> None:
            told_at.append(len(fired))
            callback()

        return call_later(delay_ms, call)

    clock.call_later = counted  # type: ignore[method-assign]
    for member in range(1_000):
        deadlines.take(fired.append, [Timer(member, 10)])
    clock.advance(10)
    assert fired == list(range(1_000))
    assert max(after - before for before, after in pairwise(told_at)) <= 20


def test_one_that_is_moved_before_its_turn_comes_waits() -> None:
    clock, fired = ManualClock(), list[Hashable]()
    deadlines = Deadlines(clock)

    def due(key: Hashable) -> None:
        if not fired:
            deadlines.take(due, [Timer(999, 50)])
            deadlines.take(due, [Timer(998, None)])
        fired.append(key)

    for member in range(1_000):
        deadlines.take(due, [Timer(member, 10)])
    clock.advance(10)
    assert fired == list(range(998))
    clock.advance(50)
    assert fired[998:] == [999]

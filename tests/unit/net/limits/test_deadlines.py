"""Who is waited for how long: sweeps of 5 s over one connection, in a table."""

import math

import pytest

from tailrace.net.limits.deadlines import IDLE, ConnectionDeadlines, IdleTimer

PATIENCE = ConnectionDeadlines(idle_ms=20_000, head_ms=10_000, dribble_ms=30_000, dribble_bytes=4096)


@pytest.mark.parametrize(
    ("came", "head", "closed_after"),
    [
        ([3, 0, 0, 0], True, 3),
        ([3, 1, 1, 1], True, 3),
        ([300, 0, 0, 0, 0, 0, 0, 0], False, 7),
        ([600] * 8, False, None),
        ([500] * 8, False, 7),
        ([1_000_000] * 40, False, None),
        ([1_000_000] * 40, True, None),  # a fast client, and each sweep finds another frame's head half there
    ],
)
def test_a_frame_has_to_come_along(came: list[int], head: bool, closed_after: int | None) -> None:
    quiet = IdleTimer()
    whys = [quiet.torn(PATIENCE, 5000, count, head=head) for count in came]
    assert next((n + 1 for n, why in enumerate(whys) if why), None) == closed_after


def test_a_whole_frame_begins_the_count_anew() -> None:
    quiet = IdleTimer()
    for _ in range(20):
        assert not quiet.torn(PATIENCE, 5000, 3, head=True)
        assert not quiet.torn(PATIENCE, 5000, 3, head=True)
        quiet.whole()


@pytest.mark.parametrize(
    ("unsent", "answer_pending", "why"),
    [(False, False, IDLE), (False, True, ""), (True, False, "taken no answer"), (True, True, "taken no answer")],
)
def test_silence_ends_it_but_not_while_an_answer_is_owed(unsent: bool, answer_pending: bool, why: str) -> None:
    quiet = IdleTimer()
    for _ in range(3):
        assert not quiet.idle(PATIENCE, 5000, moved=False, unsent=unsent, answer_pending=answer_pending)
    said = quiet.idle(PATIENCE, 5000, moved=False, unsent=unsent, answer_pending=answer_pending)
    assert why in said and bool(said) == bool(why)
    assert not quiet.idle(PATIENCE, 5000, moved=True, unsent=unsent, answer_pending=answer_pending)


@pytest.mark.parametrize("idle_ms", [0, -1])
def test_idle_connections_may_stay_for_ever(idle_ms: float) -> None:
    deadlines = ConnectionDeadlines(idle_ms=idle_ms)
    assert deadlines.interval_ms == math.inf
    assert not IdleTimer().idle(deadlines, 1e12, moved=False, unsent=True, answer_pending=False)


@pytest.mark.parametrize(("idle_ms", "expected"), [(600_000, 5000), (1000, 500), (1, 10), (-1, 5000)])
def test_the_sweep_is_as_often_as_the_shortest_bound_asks_for(idle_ms: float, expected: float) -> None:
    assert ConnectionDeadlines(idle_ms, 10_000, 30_000).interval_ms == expected

"""How long requests take, on a clock that a test moves: what is owed is answered in order, and waits are told apart."""

from prometheus_client import CollectorRegistry

from tailrace.clock import ManualClock
from tailrace.net.requests.metrics import BOUNDS_MS, RequestMetrics, Turn
from tailrace.net.requests.times import RequestTimes
from tailrace.wire.apis import ApiKey

PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)


class Measured:
    """One connection's times, and what is shown of them."""

    def __init__(self) -> None:
        self.clock, self.registry = ManualClock(), CollectorRegistry()
        self.clock.advance(1_000)  # a monotonic clock that shows 0 has just begun
        self.metrics = RequestMetrics(self.clock.monotonic_ms).register(self.registry)
        self.times = RequestTimes(self.metrics)

    def turn(self, *api_keys: int, took_ms: float = 0) -> None:
        self.times.begin()
        for api_key in api_keys:
            self.times.handle(api_key)
        self.clock.advance(took_ms)
        self.times.end()

    def shown(self, stage: str, part: str, request: str, **labels: str) -> float | None:
        name = f"tailrace_request_{stage}_time_seconds_{part}"
        return self.registry.get_sample_value(name, {"request": request, **labels})


def test_a_request_that_is_answered_in_its_turn_has_a_total_time_alone() -> None:
    one = Measured()
    one.times.begin()
    one.times.handle(PRODUCE)
    one.clock.advance(2)
    one.times.answered(1)
    one.times.end()
    assert one.shown("total", "sum", "Produce") == 0.002
    assert one.shown("total", "count", "Produce") == 1
    assert one.shown("local", "count", "Produce") is None


def test_a_request_that_waits_is_split_at_the_end_of_its_turn() -> None:
    one = Measured()
    one.turn(FETCH, took_ms=3)
    one.clock.advance(500)
    one.times.answered(1)
    shown = [one.shown(stage, "sum", "Fetch") for stage in ("total", "local", "remote")]
    assert shown == [0.503, 0.003, 0.5]


def test_a_request_that_a_turn_leaves_for_the_next_one_has_waited_since_then() -> None:
    one = Measured()
    one.times.begin()
    one.times.end(handled=True, left=True)
    one.clock.advance(7)
    one.times.begin()  # more bytes have come; it is not the connection's turn
    one.times.end(handled=False, left=True)
    one.clock.advance(3)
    one.times.begin()
    one.times.handle(PRODUCE)
    one.times.answered(1)
    one.times.end()
    one.clock.advance(5)
    one.turn(FETCH)
    one.times.answered(1)
    assert [one.shown(stage, "sum", "Produce") for stage in ("total", "queue")] == [0.01, 0.01]
    assert one.shown("queue", "count", "Fetch") is None
    assert one.shown("total", "sum", "Fetch") == 0


def test_each_request_keeps_the_turn_in_which_it_was_handled() -> None:
    one = Measured()
    one.turn(FETCH)
    one.clock.advance(10)
    one.turn(PRODUCE, PRODUCE)
    one.clock.advance(10)
    one.times.answered(2)
    one.clock.advance(10)
    one.times.answered(1)
    assert one.shown("total", "sum", "Fetch") == 0.02
    assert one.shown("total", "sum", "Produce") == 0.01 + 0.02


def test_what_has_no_answer_is_counted_and_owed_nothing() -> None:
    one = Measured()
    one.times.begin()
    one.times.handle(PRODUCE, answers=False)
    one.times.handle(FETCH)
    one.times.answered(1)
    assert one.shown("total", "count", "Produce") == one.shown("total", "count", "Fetch") == 1
    assert one.metrics.counts[PRODUCE] == 1


def test_what_another_service_counts_keeps_its_place_in_the_order() -> None:
    one = Measured()
    one.times.begin()
    one.times.pass_over()
    one.times.handle(FETCH)
    one.times.answered(1)
    assert one.shown("total", "count", "Fetch") is None
    one.times.answered(1)
    assert one.shown("total", "count", "Fetch") == 1
    assert sum(one.metrics.counts) == 1


def test_a_request_that_gets_no_answer_after_all_is_owed_none() -> None:
    one = Measured()
    one.turn(FETCH, PRODUCE)
    one.times.forget_newest()
    one.times.answered(1)
    assert (one.shown("total", "count", "Fetch"), one.shown("total", "count", "Produce")) == (1, None)


def test_buckets_are_cumulative_and_hold_their_bounds() -> None:
    one = Measured()
    for time_ms in (BOUNDS_MS[0], BOUNDS_MS[-1], BOUNDS_MS[-1] + 1):
        one.metrics.observe(PRODUCE, Turn(0, 0), time_ms)
    bounds = [str(bound_ms / 1000) for bound_ms in BOUNDS_MS] + ["+Inf"]
    counts = [one.shown("total", "bucket", "Produce", le=bound) for bound in bounds]
    assert counts == [1] * (len(BOUNDS_MS) - 1) + [2, 3]

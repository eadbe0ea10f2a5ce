"""The failover report: percentiles, and what is counted as lost or twice."""

from bench import servers
from bench.failover import Case, Outcome, judge, line, percentile
from bench.pulse import IDEMPOTENT, LEADER_ONLY, Pulse
from support.load import Promised


def outcome(producer: object = LEADER_ONLY) -> Outcome:
    return Outcome(Case("case", servers.three_tailraces, producer, 9000))  # type: ignore[arg-type]


def pulse(**acknowledged: int) -> Pulse:
    beating = Pulse.__new__(Pulse)
    beating.promised = Promised({int(number[1:]): (0, offset) for number, offset in acknowledged.items()})
    return beating


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.01, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([7.0], 0.99) == 7.0


def test_what_is_not_where_it_was_promised_is_lost() -> None:
    seen = outcome()
    judge(seen, pulse(n0=0, n1=1, n2=2), {0: [(0, 0), (1, 2), (2, 2)]})
    assert (seen.acknowledged, seen.lost, seen.twice, seen.in_order) == (3, 1, 1, True)


def test_an_idempotent_producer_whose_record_is_there_twice_is_a_failure() -> None:
    seen = outcome(IDEMPOTENT)
    judge(seen, pulse(n0=0), {0: [(0, 0), (1, 0)]})
    assert "twice" in seen.failure


def test_records_out_of_order_are_seen() -> None:
    seen = outcome()
    judge(seen, pulse(), {0: [(0, 1), (1, 0)]})
    assert not seen.in_order
    seen.silences = [3.0, 1.0, 2.0]
    assert "| 3 | 2 | 3 | 3 | 1 |" in line(seen)

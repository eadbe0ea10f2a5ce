"""Which replicas a throttled move names, as kafka-reassign-partitions names them."""

from __future__ import annotations

from tailrace.cli.daily.throttles import involved, throttled

BEFORE = {("a", 0): (0, 1), ("a", 1): (1, 2), ("b", 0): (0,)}
PLAN = {("a", 0): (0, 3), ("a", 1): (2, 1), ("b", 0): (4,)}


def test_those_that_were_there_give_and_the_new_ones_take() -> None:
    assert throttled("a", BEFORE, PLAN) == ("0:0,0:1,1:1,1:2", "0:3")
    assert throttled("b", BEFORE, PLAN) == ("0:0", "0:4")


def test_every_broker_that_gives_or_takes_gets_the_rate() -> None:
    assert involved(BEFORE, PLAN) == [0, 1, 2, 3, 4]
    assert involved({}, {("c", 0): (7,)}) == [7]

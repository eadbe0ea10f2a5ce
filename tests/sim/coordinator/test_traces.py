"""Golden traces of rebalances: what a person reads once and every change is held against afterwards."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.coordinator.traces import Traced, TracedConsumers
from support.consumer_groups import Consumer
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.group import Leaver
from tailrace_coordinator.groups.offsets import OffsetToCommit

TESTDATA = Path(__file__).parents[1] / "testdata"


def enter(driver: Traced, name: str, **options: object) -> tuple[str, int]:
    """Joins with both requests; returns the member id and the token of the second."""
    driver.asks(name, "join without an id")
    first = driver.answers[driver.join(client_id=name, **options)]  # type: ignore[arg-type]
    driver.asks(name, f"join as {first.member_id}")
    return first.member_id, driver.join(member_id=first.member_id, client_id=name, **options)  # type: ignore[arg-type]


def again(driver: Traced, name: str, member: str, **options: object) -> int:
    driver.asks(name, f"join as {member}")
    return driver.join(member_id=member, client_id=name, **options)  # type: ignore[arg-type]


def sync(driver: Traced, name: str, member: str, generation: int, **assignments: str) -> int:
    """Syncs; assignments are by the names of members' clients."""
    ids = {m.client_id: m.member_id for m in driver.classic("g").members.values()}
    driver.asks(name, f"sync generation {generation}")
    return driver.sync("g", member, generation, {ids[who]: what.encode() for who, what in assignments.items()})


def heartbeat(driver: Traced, name: str, member: str, generation: int) -> None:
    driver.asks(name, f"heartbeat generation {generation}")
    driver.heartbeat("g", member, generation)


def three_members_join_within_the_initial_delay() -> Traced:
    driver = Traced(GroupConfig())
    a, _ = enter(driver, "a")
    driver.advance(1_000)
    b, _ = enter(driver, "b")
    driver.advance(1_000)
    c, _ = enter(driver, "c")
    driver.advance(6_000)
    sync(driver, "b", b, 1)
    sync(driver, "c", c, 1)
    sync(driver, "a", a, 1, a="0", b="1", c="2")
    heartbeat(driver, "a", a, 1)
    return driver


def _stable_three() -> tuple[Traced, str, str, str]:
    driver = three_members_join_within_the_initial_delay()
    a, b, c = driver.classic("g").members
    driver.lines = []
    return driver, a, b, c


def a_member_leaves_and_the_others_share_its_partitions() -> Traced:
    driver, a, b, c = _stable_three()
    driver.asks("b", "leave")
    driver.leave("g", Leaver(b))
    heartbeat(driver, "a", a, 1)
    again(driver, "a", a)
    again(driver, "c", c)
    sync(driver, "c", c, 2)
    sync(driver, "a", a, 2, a="0 1", c="2")
    return driver


def a_killed_leader_is_noticed_by_its_session() -> Traced:
    driver, _, b, c = _stable_three()
    for _ in range(4):
        driver.advance(3_000)
        heartbeat(driver, "b", b, 1)
        heartbeat(driver, "c", c, 1)
    again(driver, "b", b)
    again(driver, "c", c)
    sync(driver, "c", c, 2)
    sync(driver, "b", b, 2, b="0 2", c="1")
    return driver


def a_follower_that_never_syncs_is_expelled() -> Traced:
    driver, a, b, c = _stable_three()
    again(driver, "a", a, rebalance_ms=20_000)
    again(driver, "b", b, rebalance_ms=20_000)
    again(driver, "c", c, rebalance_ms=20_000)
    sync(driver, "a", a, 2, a="0", b="1", c="2")
    sync(driver, "b", b, 2)
    for _ in range(3):
        driver.advance(7_000)
        for name, member in (("a", a), ("b", b), ("c", c)):
            heartbeat(driver, name, member, 2)
    return driver


def offsets_are_committed_while_a_rebalance_is_prepared() -> Traced:
    driver, a, b, c = _stable_three()
    enter(driver, "d")
    driver.asks("b", "commit t-1 at 5 in generation 1")
    driver.commit_as("g", b, 1, OffsetToCommit("t", 1, 5))
    for name, member in (("a", a), ("b", b), ("c", c)):
        again(driver, name, member)
    driver.asks("b", "commit t-1 at 6 in generation 1")
    driver.commit_as("g", b, 1, OffsetToCommit("t", 1, 6))
    driver.asks("b", "commit t-1 at 6 in generation 2")
    driver.commit_as("g", b, 2, OffsetToCommit("t", 1, 6))
    return driver


def static_members_restart_without_a_rebalance() -> Traced:
    driver = Traced(GroupConfig(group_initial_rebalance_delay_ms=500))
    for name in ("a", "b"):
        driver.asks(name, f"join as instance {name}")
        driver.join(instance=name, client_id=name)
    driver.advance(1_500)
    a, b = driver.classic("g").members
    sync(driver, "b", b, 1)
    sync(driver, "a", a, 1, a="0", b="1")
    driver.asks("b", "restart: join as instance b")
    new = driver.answers[driver.join(instance="b", client_id="b")].member_id
    sync(driver, "b", new, 1)
    driver.asks("old b", "heartbeat")
    driver.heartbeat("g", b, 1, "b")
    driver.asks("a", "restart of the leader: join as instance a")
    driver.join(instance="a", client_id="a")
    driver.asks("admin", "remove instance a")
    driver.leave("g", Leaver("", "a"))
    return driver


def a_coordinator_dies_in_the_middle_of_a_rebalance() -> Traced:
    driver, a, b, c = _stable_three()
    again(driver, "a", a)
    again(driver, "b", b)
    after = Traced(driver.config, driver.log)
    after.now_ms, after.token = driver.now_ms, driver.token
    after.lines = [*driver.lines]
    after.say("--- another coordinator has loaded the log")
    for name, member in (("a", a), ("b", b), ("c", c)):
        heartbeat(after, name, member, 1)
    for name, member in (("a", a), ("b", b), ("c", c)):
        again(after, name, member)
    sync(after, "a", a, 2, a="0", b="1", c="2")
    sync(after, "b", b, 2)
    return after


def a_consumer_joins_and_the_first_one_gives_up_half_of_its_partitions() -> Traced:
    driver = TracedConsumers({"t": 4})
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    driver.says(a, "joins").enter("t")
    driver.advance(5_000)
    driver.says(b, "joins").enter("t")
    kept = driver.says(a, "heartbeat").beat()
    assert kept.member_epoch == 2
    driver.says(b, "heartbeat").beat()
    driver.says(a, "gave up what it should").beat()
    driver.says(b, "heartbeat").beat()
    driver.asks("b", "leaves")
    driver.beat("b", -1)
    driver.advance(5_000)
    driver.says(a, "heartbeat").beat()
    return driver


def a_consumer_that_keeps_its_partitions_is_removed() -> Traced:
    driver = TracedConsumers({"t": 2})
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    driver.says(a, "joins").enter("t", rebalance_ms=10_000)
    driver.advance(5_000)
    driver.says(b, "joins").enter("t")
    driver.asks("a", "heartbeat, with all that it had")
    driver.beat("a", 2, owned={"t": {0, 1}})
    driver.advance(10_000)
    driver.says(a, "heartbeat").beat()
    driver.says(b, "heartbeat").beat()
    return driver


def a_static_consumer_restarts_without_a_rebalance() -> Traced:
    driver = TracedConsumers({"t": 2})
    a, b = Consumer(driver, "a", instance="i"), Consumer(driver, "b", instance="i")
    driver.says(a, "joins as instance i").enter("t")
    driver.says(b, "joins as instance i").enter("t")
    driver.asks("a", "leaves for a while")
    driver.beat("a", -2, instance="i")
    driver.advance(10_000)
    driver.says(b, "joins as instance i").enter("t")
    driver.says(a, "heartbeat").beat()
    return driver


SCENARIOS = [
    a_consumer_joins_and_the_first_one_gives_up_half_of_its_partitions,
    a_consumer_that_keeps_its_partitions_is_removed,
    a_static_consumer_restarts_without_a_rebalance,
    three_members_join_within_the_initial_delay,
    a_member_leaves_and_the_others_share_its_partitions,
    a_killed_leader_is_noticed_by_its_session,
    a_follower_that_never_syncs_is_expelled,
    offsets_are_committed_while_a_rebalance_is_prepared,
    static_members_restart_without_a_rebalance,
    a_coordinator_dies_in_the_middle_of_a_rebalance,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_trace_is_the_last_reviewed_one(scenario: Callable[[], Traced], rewrite: bool) -> None:
    path = TESTDATA / f"{scenario.__name__}.txt"
    trace = scenario().text()
    if rewrite:
        path.write_text(trace)
    assert trace == path.read_text(), "read the difference; accept it with --rewrite"

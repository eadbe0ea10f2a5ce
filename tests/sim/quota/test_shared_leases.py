"""The bound holds with several quota services over one store, and whatever happens to the store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.quota.shared_world import SharedWorld
from sim.quota.test_leases import END_MS, RATE, SEEDS, parts_of_the_rate
from tailrace.quota.leases import FLOOR

MOST_PART = 1.10
LEAST_PART = 0.90


def everywhere(world: SharedWorld) -> None:
    for gateway in range(len(world.gateways)):
        for _ in range(4):
            world.connect(gateway, 16_384)


def nothing_happens(world: SharedWorld) -> None:
    everywhere(world)
    world.run(END_MS)


def killed_and_started_empty(world: SharedWorld) -> None:
    everywhere(world)
    world.run(7000)
    world.away = True
    world.run(9000)
    world.store.lose_all()
    world.away = False
    world.run(END_MS)


def away_for_long(world: SharedWorld) -> None:
    everywhere(world)
    world.run(6000)
    world.away = True
    world.run(14_000)
    world.away = False
    world.run(END_MS)


def failed_over_to_a_replica_that_lost_a_second(world: SharedWorld) -> None:
    everywhere(world)
    for again in range(5):
        world.run(3000 + 4000 * again)
        copy = dict(world.store.texts)
        world.run(world.now_ms + 1000)
        world.fail_over_to(copy)  # type: ignore[arg-type]
    world.run(END_MS)


def a_service_is_killed_and_another_comes(world: SharedWorld) -> None:
    everywhere(world)
    world.run(7000)
    world.services[0] = world.services[1]
    world.run(12_000)
    world.services[0] = world.new_service()
    world.run(END_MS)


STORIES = [
    nothing_happens,
    killed_and_started_empty,
    away_for_long,
    failed_over_to_a_replica_that_lost_a_second,
    a_service_is_killed_and_another_comes,
]


@pytest.mark.parametrize("gateways", [2, 4])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_services_that_share_a_store_keep_the_bound(story: Callable[[SharedWorld], None], gateways: int) -> None:
    for seed in SEEDS:
        world = SharedWorld(seed, RATE, gateways)
        story(world)
        parts = parts_of_the_rate(world)
        assert max(parts) <= MOST_PART, f"seed {seed}"
        assert min(parts) >= LEAST_PART, f"seed {seed}"
        assert world.most_leased <= RATE * (1 + FLOOR) * 1.0001 or "replica" in story.__name__, f"seed {seed}"
        assert world.contended <= 0.02 * world.decided, f"seed {seed}"


def test_one_service_needs_one_round_trip_for_each_round_of_leases() -> None:
    world = SharedWorld(1, RATE, 2, services=1)
    nothing_happens(world)
    assert world.decided > 100
    assert world.store.exchanges - world.decided <= 0.1 * world.decided


def test_messages_that_are_lost_cost_some_of_the_rate_and_never_give_more() -> None:
    for seed in SEEDS:
        world = SharedWorld(seed, RATE, 3, loss=0.1)
        nothing_happens(world)
        parts = parts_of_the_rate(world)
        assert max(parts) <= MOST_PART and min(parts) >= 0.85, f"seed {seed}"

"""One client id over several gateways stays within a tenth of its rate in every 10 s, whatever happens (issue 3.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.quota.world import Connection, World

RATE = 1_000_000.0
END_MS = 24_000
SEEDS = range(4)


def steady(world: World) -> None:
    for gateway in range(len(world.gateways)):
        for _ in range(4):
            world.connect(gateway, 16_384)
    world.run(END_MS)


def only_one_gateway(world: World) -> None:
    for _ in range(4):
        world.connect(0, 16_384)
    world.run(END_MS)


def skewed(world: World) -> None:
    for _ in range(8):
        world.connect(0, 16_384)
    world.connect(1, 16_384)
    world.connect(len(world.gateways) - 1, 1000, think_ms=20)
    world.run(END_MS)


def shifting(world: World) -> None:
    connections: list[Connection] = []
    for round_ in range(8):
        for connection in connections:
            world.close(connection)
        connections = [world.connect(round_ % len(world.gateways), 16_384) for _ in range(4)]
        world.run(world.now_ms + END_MS / 8)


def few_large_requests(world: World) -> None:
    for gateway in range(2):
        world.connect(gateway, 150_000)
    world.run(END_MS)


def one_steady_and_one_rare(world: World) -> None:
    for _ in range(3):
        world.connect(0, 16_384)
    world.connect(1, 100_000, think_ms=1000)
    world.run(END_MS)


def killed_quota_service(world: World) -> None:
    for gateway in range(len(world.gateways)):
        for _ in range(3):
            world.connect(gateway, 16_384)
    world.run(7000)
    world.kill_service()
    world.run(15_000)
    world.start_service()
    world.run(END_MS)


def killed_quota_service_while_demand_shifts(world: World) -> None:
    for _ in range(3):
        world.connect(0, 16_384)
        world.connect(1, 16_384)
    world.run(7000)
    world.kill_service()
    world.run(7100)
    world.start_service()
    world.run(END_MS)


STORIES = [
    steady,
    only_one_gateway,
    skewed,
    shifting,
    few_large_requests,
    one_steady_and_one_rare,
    killed_quota_service,
    killed_quota_service_while_demand_shifts,
]


def parts_of_the_rate(world: World) -> list[float]:
    """What passed in every window of 10 s, as a part of what may."""
    starts = range(0, END_MS - 9_999, 500)
    return [world.passed.between(start, start + 10_000) / (world.rate * 10) for start in starts]


@pytest.mark.parametrize("loss", [0.0, 0.1], ids=["reliable", "lossy"])
@pytest.mark.parametrize("gateways", [2, 3])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_one_client_id_stays_within_a_tenth_of_its_rate(
    story: Callable[[World], None], gateways: int, loss: float
) -> None:
    for seed in SEEDS:
        world = World(seed, RATE, gateways, loss=loss)
        story(world)
        parts = parts_of_the_rate(world)
        assert max(parts) <= 1.10, f"seed {seed}"
        # A fifth of all exchanges lost costs a shifting client some of its rate; never does it get more.
        assert min(parts) >= (0.85 if loss else 0.90), f"seed {seed}"
        assert world.most_leased <= RATE * 1.0201, f"seed {seed}"


def test_open_lets_everything_through_while_the_service_is_away_and_heals() -> None:
    world = World(1, RATE, 2, unavailable="open")
    for gateway in range(2):
        world.connect(gateway, 16_384)
    world.run(5000)
    world.kill_service()
    world.run(10_000)
    assert world.passed.between(7000, 10_000) > 3 * RATE * 3
    world.start_service()
    world.run(22_000)
    assert world.passed.between(12_000, 22_000) <= 1.10 * RATE * 10


def test_closed_stops_almost_everything_while_the_service_is_away_and_heals() -> None:
    world = World(1, RATE, 2, unavailable="closed")
    for gateway in range(2):
        world.connect(gateway, 16_384)
    world.run(5000)
    world.kill_service()
    world.run(15_000)
    assert world.passed.between(6000, 15_000) < 0.05 * RATE * 9
    world.start_service()
    world.run(30_000)
    assert 0.90 <= world.passed.between(20_000, 30_000) / (RATE * 10) <= 1.10


def test_the_same_seed_is_the_same_history() -> None:
    histories = []
    for _ in range(2):
        world = World(7, RATE, 3, loss=0.1)
        skewed(world)
        histories.append(world.passed.at)
    assert histories[0] == histories[1]

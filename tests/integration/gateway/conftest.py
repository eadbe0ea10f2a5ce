"""Gateways with scripted clusters behind them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.gateway import World
from tailrace.net.quotas.meter import unmetered
from tailrace_gateway.gateway import Advertised, GatewayLimits


@pytest.fixture
async def open_world(tmp_path: Path) -> AsyncIterator[Callable[..., World]]:
    worlds: list[World] = []

    def build(
        limits: GatewayLimits | None = None, meter_of: Any = unmetered, advertised: Advertised | None = None
    ) -> World:
        world = World(tmp_path, limits or GatewayLimits(), meter_of, advertised or Advertised())
        worlds.append(world)
        return world

    yield build
    for world in worlds:
        await world.close()


@pytest.fixture
async def world(open_world: Callable[..., World]) -> World:
    """One gateway with node 0, which echoes."""
    world = open_world()
    world.put_broker(0, await world.peer("broker-0"))
    return world

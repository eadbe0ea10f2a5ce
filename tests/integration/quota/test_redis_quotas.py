"""Two gateways and two quota services on a real Redis: nobody's produce fails, and the rate holds, whatever dies."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator

import pytest

from integration.quota.load import CLOCK, alter_quotas, measured_cluster, producing
from support.redis_server import MISSING, RedisServer
from support.waiting import HUNG_S
from tailrace.net.address import Address
from tailrace.testing import Cluster

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason=MISSING)
RATE = 1_000_000.0
WINDOW_MS = 10_000.0
PAUSED_MS = 5_000.0


def most(window_ms: float) -> float:
    """The published bound, with some room for when this process sees an answer."""
    return RATE * (1.02 + 800 / window_ms)


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def cluster(redis: RedisServer) -> Iterator[Cluster]:
    with measured_cluster("--gateways", "2", "--quotas", "2", "--quota-url", redis.url) as running:
        yield running


async def test_the_rate_holds_while_redis_and_quota_services_die_and_come_back(
    cluster: Cluster, redis: RedisServer
) -> None:
    address = Address.parse(cluster.bootstrap)
    await alter_quotas(address, {"client-id": "both"}, producer_byte_rate=RATE)
    async with producing(address, "both", "measured", connections=8, size_bytes=8_000) as produced:
        await produced.rate_over(1000)
        rates = {"with Redis": await produced.rate_over(WINDOW_MS)}
        async with asyncio.timeout(HUNG_S):  # the booking expires while a busy machine lets no lease through for 2 s
            while await asyncio.to_thread(redis.ask, "DBSIZE") != "2":
                await CLOCK.sleep(50)
        redis.kill()
        rates["without Redis"] = await produced.rate_over(WINDOW_MS)
        redis.start()
        rates["with an empty one"] = await produced.rate_over(WINDOW_MS)
        redis.pause()
        rates["with one that is stopped"] = await produced.rate_over(WINDOW_MS)
        redis.resume()
        with cluster.paused("quota", 0):
            rates["with a stopped quota service"] = await produced.rate_over(PAUSED_MS)
        cluster.kill("quota", 0)
        rates["with one quota service"] = await produced.rate_over(WINDOW_MS)
    assert all(0 < rate <= most(PAUSED_MS if "stopped quota" in when else WINDOW_MS) for when, rate in rates.items()), (
        rates
    )
    assert any(produced.throttle_times_ms)

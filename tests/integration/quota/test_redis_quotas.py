"""Two gateways and two quota services on a real Redis: nobody's produce fails, and the rate holds, whatever dies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from integration.quota.load import alter_quotas, measured_cluster, producing
from support.redis_server import MISSING, RedisServer
from tailrace.net.address import Address
from tailrace.testing import Cluster

pytestmark = [pytest.mark.skipif(shutil.which("redis-server") is None, reason=MISSING), pytest.mark.timeout(240)]
RATE = 1_000_000.0
MOST = 1.1 * RATE
WINDOW_MS = 10_000.0


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
        assert int(redis.ask("DBSIZE")) == 2
        redis.kill()
        rates["without Redis"] = await produced.rate_over(WINDOW_MS)
        redis.start()
        rates["with an empty one"] = await produced.rate_over(WINDOW_MS)
        redis.pause()
        rates["with one that is stopped"] = await produced.rate_over(WINDOW_MS)
        redis.resume()
        cluster.pause("quota", 0)
        rates["with a stopped quota service"] = await produced.rate_over(WINDOW_MS)
        cluster.resume("quota", 0)
        cluster.kill("quota", 0)
        rates["with one quota service"] = await produced.rate_over(WINDOW_MS)
    assert all(0 < rate <= MOST for rate in rates.values()), rates
    assert any(produced.throttle_times_ms)

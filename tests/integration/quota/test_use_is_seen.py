"""A client above its rate is seen to be so: over HTTP, by the command, and in the quota service's metrics."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from kafka import KafkaAdminClient

from integration.quota.load import CLOCK, producing, until_led
from support.waiting import HUNG_S
from tailrace.net.address import Address
from tailrace.testing import Cluster

RATE = 20_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(port=0, settings={"quota.max.throttle.ms": "1000"}) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        try:
            admin.create_topics({"measured": {"num_partitions": 1, "replication_factor": 1}})
        finally:
            admin.close()
        until_led(Address.parse(running.bootstrap), "measured")
        yield running


def command(cluster: Cluster, *words: str) -> str:
    settings = {"TAILRACE_BOOTSTRAP": cluster.bootstrap, "TAILRACE_ADMIN": admin_url(cluster)}
    typed = [sys.executable, "-m", "tailrace.cli", "quota", *words]
    done = subprocess.run(
        typed, capture_output=True, text=True, timeout=HUNG_S, check=False, env={**os.environ, **settings}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def admin_url(cluster: Cluster) -> str:
    return f"http://{cluster.addresses('gateway')['admin']}"


def asked(url: str, method: str = "GET", body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"content-type": "application/json"}, method=method), timeout=HUNG_S) as answer:
        text = answer.read()
    return json.loads(text) if text else None


async def until(look: Callable[[], Any]) -> Any:
    """However slow the machine is, it is seen in the end."""
    while not (found := await asyncio.to_thread(look)):
        await CLOCK.sleep(100)
    return found


async def test_a_limited_client_is_seen_everywhere(cluster: Cluster) -> None:
    await asyncio.to_thread(command, cluster, "set", "--client-id", "busy", f"producer_byte_rate={RATE}")
    listed = json.loads(await asyncio.to_thread(command, cluster, "list", "--json"))
    assert listed == [
        {"entity": [{"entity_type": "client-id", "entity_name": "busy"}], "values": {"producer_byte_rate": RATE}}
    ]
    (known,) = (await asyncio.to_thread(asked, f"{admin_url(cluster)}/v3/clusters"))["data"]
    root = known["metadata"]["self"]

    def throttled() -> Any:
        return [row for row in asked(f"{root}/quota-usage")["data"] if row["throttled"] and row["usage"] > RATE / 2]

    def shown() -> list[str]:
        labels = r'\{broker="",client_id="busy",ip="",quota="producer_byte_rate",user=""\}'
        return re.findall(rf"^tailrace_quota_(\w+){labels} (?!0\.0)", metrics(), re.MULTILINE)

    def metrics() -> str:
        where = cluster.addresses("quota")["http"]
        return str(urlopen(f"http://{where}/metrics", timeout=HUNG_S).read().decode())

    async with producing(Address.parse(cluster.bootstrap), "busy", "measured", connections=2, size_bytes=RATE // 2):
        (row,) = await until(throttled)
        assert (row["client_id"], row["name"], row["limit"]) == ("busy", "producer_byte_rate", RATE)
        assert row["throttle_time_ms"] > 0 and row["total"] > 0
        seen = await until(lambda: len(found := shown()) == 4 and found)
        assert sorted(seen) == ["limit", "throttle_time_seconds_total", "throttled", "usage"]
        (one,) = json.loads(await asyncio.to_thread(command, cluster, "top", "--json"))
        assert one["client_id"] == "busy" and one["throttle_time_ms"] >= row["throttle_time_ms"]
        assert "busy" in await asyncio.to_thread(command, cluster, "top")
    await asyncio.to_thread(command, cluster, "delete", "--client-id", "busy")
    assert await asyncio.to_thread(command, cluster, "list", "--json") == "[]\n"
    async with asyncio.timeout(40):  # a minute without a request would end the row as well
        await until(lambda: asked(f"{root}/quota-usage")["data"] == [])


def test_quotas_are_set_and_removed_over_http(cluster: Cluster) -> None:
    (known,) = asked(f"{admin_url(cluster)}/v3/clusters")["data"]
    root = known["metadata"]["self"]
    asked(f"{root}/quotas/client-id=%2Cuser=alice/producer_byte_rate", "PUT", {"value": 1e6})
    (row,) = asked(f"{root}/quotas")["data"]
    assert row["values"] == {"producer_byte_rate": 1e6}
    assert row["entity"] == [
        {"entity_type": "client-id", "entity_name": None},
        {"entity_type": "user", "entity_name": "alice"},
    ]
    asked(f"{row['metadata']['self']}/producer_byte_rate", "DELETE")
    assert asked(f"{root}/quotas")["data"] == []

"""quota.scope=broker: as in Apache Kafka a rate holds for what goes to each broker, over whichever gateways."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from integration.quota.load import CLOCK, alter_quotas, producing, until_led
from support.ports import HOST, free_ports
from support.waiting import HUNG_S
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.testing import Cluster
from tailrace.wire.messages import CreateTopicsRequest

RATE = 100_000.0
WINDOW_MS = 8_000.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"quota.scope": "broker", "min.insync.replicas": "1"}
    with Cluster(brokers=2, port=free_ports(2), settings=settings, arguments=["--gateways", "2"]) as running:
        yield running


async def topic_at_each_broker(address: Address) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    rows = [
        topic(
            name=f"at-{node}",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[topic.CreatableReplicaAssignment(partition_index=0, broker_ids=[node])],
        )
        for node in (0, 1)
    ]
    client = Client(address, "maker")
    answer = await client.ask(CreateTopicsRequest(topics=rows, timeout_ms=30_000), timeout_ms=30_000, version=5)
    await client.close()
    assert {row.error_code for row in answer.topics} <= {0, 36}  # or another test has made them
    for node in (0, 1):
        await asyncio.to_thread(until_led, Address(address.host, address.port + node), f"at-{node}")


async def test_a_client_has_its_rate_at_each_broker_and_no_more(cluster: Cluster) -> None:
    bootstrap = Address.parse(cluster.bootstrap.partition(",")[0])
    await topic_at_each_broker(bootstrap)
    await alter_quotas(bootstrap, {"client-id": "spread"}, producer_byte_rate=RATE)
    nodes = [Address(bootstrap.host, bootstrap.port + node) for node in (0, 1)]
    async with (
        producing(nodes[0], "spread", "at-0", connections=4, size_bytes=2_000) as first,
        producing(nodes[1], "spread", "at-1", connections=4, size_bytes=2_000) as second,
    ):
        rates = await asyncio.gather(first.rate_over(WINDOW_MS), second.rate_over(WINDOW_MS))
    for rate, answered in zip(rates, (first, second), strict=True):
        assert RATE / 4 < rate <= 1.1 * RATE
        assert max(answered.throttle_times_ms) > 0
    assert sum(rates) > 1.2 * RATE  # more than one rate of the cluster


@contextmanager
def another_gateway(cluster: Cluster, *settings: str) -> Iterator[Address]:
    """A gateway of the same cluster, started by hand with settings of its own."""
    port = free_ports(2)
    words = (f"data.dir={cluster.data_dir}", "node.id=7", f"gateway.listen={HOST}", f"gateway.port={port}", *settings)
    options = [part for word in words for part in ("--set", word)]
    command = [sys.executable, "-m", "tailrace_gateway", "--log-format", "json", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            assert any(json.loads(line)["event"] == "ready" for line in process.stderr)
            yield Address(HOST, port)
        finally:
            process.terminate()
            process.communicate(timeout=HUNG_S)


async def test_a_gateway_with_another_scope_is_found_by_the_quota_service(cluster: Cluster) -> None:
    bootstrap = Address.parse(cluster.bootstrap.partition(",")[0])
    await alter_quotas(bootstrap, {"client-id": "astray"}, producer_byte_rate=RATE)
    assert cluster.metric("tailrace_quota_scope_differs", "quota") == 0
    with another_gateway(cluster, "quota.scope=cluster", "admin.port=0", "gateway.handover=false") as address:
        await topic_at_each_broker(bootstrap)
        async with producing(address, "astray", "at-0", connections=1, size_bytes=2_000):
            async with asyncio.timeout(HUNG_S):
                while not cluster.metric("tailrace_quota_scope_differs", "quota"):
                    await CLOCK.sleep(100)

"""quota.scope=broker: as in Apache Kafka a rate holds for what goes to each broker, over whichever gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from integration.quota.load import alter_quotas, producing
from support.ports import free_ports
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.testing import Cluster
from tailrace.wire.messages import CreateTopicsRequest

RATE = 400_000.0
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
    assert [row.error_code for row in answer.topics] == [0, 0]


async def test_a_client_has_its_rate_at_each_broker_and_no_more(cluster: Cluster) -> None:
    bootstrap = Address.parse(cluster.bootstrap.partition(",")[0])
    await topic_at_each_broker(bootstrap)
    await alter_quotas(bootstrap, {"client-id": "spread"}, producer_byte_rate=RATE)
    nodes = [Address(bootstrap.host, bootstrap.port + node) for node in (0, 1)]
    async with (
        producing(nodes[0], "spread", "at-0", connections=4, size_bytes=4_000) as first,
        producing(nodes[1], "spread", "at-1", connections=4, size_bytes=4_000) as second,
    ):
        rates = await asyncio.gather(first.rate_over(WINDOW_MS), second.rate_over(WINDOW_MS))
    for rate, answered in zip(rates, (first, second), strict=True):
        assert RATE / 4 < rate <= 1.1 * RATE
        assert max(answered.throttle_times_ms) > 0
    assert sum(rates) > 1.2 * RATE  # more than one rate of the cluster

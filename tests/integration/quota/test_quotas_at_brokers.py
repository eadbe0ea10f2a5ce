"""Quotas where clients are at the brokers themselves (gateway.advertise=brokers): one rate, wherever the socket is."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient

from integration.quota.load import alter_quotas, fetching, producing, until_led
from integration.quota.test_kinds_of_quotas import client_of, quota_over, rate_holds, served, until_all_are_served
from support.waiting import HUNG_S
from tailrace.net.address import Address
from tailrace.testing import Cluster

RATE = 1_000_000.0
STARVED = RATE / 4
WINDOW_MS = 10_000.0
CONNECTIONS = 4
SIZE_BYTES = 8_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(port=0, settings={"gateway.advertise": "brokers", "quota.max.throttle.ms": "1000"}) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        try:
            admin.create_topics({"measured": {"num_partitions": 1, "replication_factor": 1}})
        finally:
            admin.close()
        until_led(Address.parse(running.bootstrap), "measured")
        yield running


@pytest.fixture
def gateway(cluster: Cluster) -> Address:
    return Address.parse(cluster.bootstrap)


@pytest.fixture
def broker(cluster: Cluster) -> Address:
    return Address.parse(cluster.addresses("broker")["client"].split(",")[0])


async def throttled_ms(cluster: Cluster) -> float:
    where = cluster.addresses("broker")["http"]
    page = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{where}/metrics").read().decode())
    return 1000 * float(re.findall(r"^tailrace_throttle_time_seconds_total (\S+)", page, re.MULTILINE)[0])


async def test_one_client_id_at_a_broker_and_at_a_gateway_stays_within_its_rates(
    gateway: Address, broker: Address
) -> None:
    await alter_quotas(gateway, {"client-id": "both"}, producer_byte_rate=RATE, consumer_byte_rate=RATE)
    async with (
        producing(broker, "both", "measured", connections=CONNECTIONS, size_bytes=SIZE_BYTES) as direct,
        producing(gateway, "both", "measured", connections=CONNECTIONS, size_bytes=SIZE_BYTES) as relayed,
        fetching(broker, "both", "measured", connections=CONNECTIONS) as fetched_direct,
        fetching(gateway, "both", "measured", connections=CONNECTIONS) as fetched_relayed,
    ):
        rates = await asyncio.gather(
            *(one.rate_over(WINDOW_MS) for one in (direct, relayed, fetched_direct, fetched_relayed))
        )
    for kind in (rates[:2], rates[2:]):
        assert STARVED < sum(kind) <= 1.1 * RATE and min(kind) > 0
    for answered in (direct, relayed, fetched_direct, fetched_relayed):
        assert max(answered.throttle_times_ms) > 0


async def test_a_client_alone_at_a_broker_gets_its_rate_and_no_more(gateway: Address, broker: Address) -> None:
    await alter_quotas(gateway, {"client-id": "alone"}, producer_byte_rate=RATE)
    async with producing(broker, "alone", "measured", connections=CONNECTIONS, size_bytes=SIZE_BYTES) as produced:
        assert STARVED < await produced.rate_over(WINDOW_MS) <= 1.1 * RATE


async def test_a_kafka_client_is_told_and_held_at_the_broker(cluster: Cluster, gateway: Address) -> None:
    """librdkafka goes where Metadata sends it."""
    await alter_quotas(gateway, {"client-id": "librdkafka"}, producer_byte_rate=RATE / 20)  # saves less than a request
    before_ms = await throttled_ms(cluster)
    told: list[float] = []
    conf = {"bootstrap.servers": cluster.bootstrap, "client.id": "librdkafka", "linger.ms": 5}
    producer = Producer({**conf, "throttle_cb": lambda event: told.append(event.throttle_time)})
    for _ in range(15):
        producer.produce("measured", bytes(SIZE_BYTES))
        await asyncio.to_thread(producer.flush, HUNG_S)
    assert len(producer) == 0 and max(told) > 0
    assert await throttled_ms(cluster) > before_ms


async def test_an_address_gets_its_rate_of_connections_at_the_broker_too(
    cluster: Cluster, gateway: Address, broker: Address
) -> None:
    async with client_of(gateway, "old") as old:
        assert await served(broker)
        async with quota_over(old, {"ip": broker.host}, connection_creation_rate=2.0):
            await rate_holds(broker)
    await until_all_are_served(broker)


async def test_request_time_at_the_broker_is_charged(cluster: Cluster, gateway: Address, broker: Address) -> None:
    before_ms = await throttled_ms(cluster)
    await alter_quotas(gateway, {"client-id": "worker"}, request_percentage=0.1)
    async with producing(broker, "worker", "measured", connections=2, size_bytes=4000) as produced:
        while await throttled_ms(cluster) == before_ms or not produced.bytes_at:
            await produced.rate_over(100)

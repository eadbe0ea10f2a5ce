"""Users, addresses, controller mutations and request time at a real cluster; clients are User:ANONYMOUS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from integration.quota.load import CLOCK, Answered, alter_quotas, measured_cluster, producing
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.testing import Cluster
from tailrace.wire.codec import encode_request
from tailrace.wire.messages import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
)

ANONYMOUS = "ANONYMOUS"
RATE = 500_000.0
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with measured_cluster(quota_max_throttle_ms="1000") as running:
        yield running


@pytest.fixture
def address(cluster: Cluster) -> Address:
    return Address.parse(cluster.bootstrap)


@asynccontextmanager
async def quota(address: Address, entity: dict[str, str | None], **values: float) -> AsyncIterator[None]:
    """Sets quotas for as long as the block runs."""
    assert await alter_quotas(address, entity, **values) == (0, None)
    try:
        yield
    finally:
        assert await alter_quotas(address, entity, **dict.fromkeys(values)) == (0, None)


async def until_throttled(produced: Answered) -> None:
    """However slow the machine is, a client over its rate is told so in the end."""
    while not any(produced.throttle_times_ms):
        await produced.rate_over(100)


@asynccontextmanager
async def client_of(address: Address, client_id: str) -> AsyncIterator[Client]:
    client = Client(address, client_id)
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize(
    "entity",
    [{"user": ANONYMOUS}, {"user": None}, {"user": ANONYMOUS, "client-id": "exact"}, {"user": None, "client-id": None}],
)
async def test_a_users_rate_holds_whichever_entity_gives_it(address: Address, entity: dict[str, str | None]) -> None:
    async with (
        quota(address, {"client-id": "exact"}, producer_byte_rate=1e9),  # comes after all that have a user
        quota(address, entity, producer_byte_rate=RATE),
        producing(address, "exact", "measured", connections=4, size_bytes=4000) as produced,
    ):
        assert await produced.rate_over(3000) <= 1.4 * RATE
        await until_throttled(produced)


async def test_two_client_ids_of_a_user_share_the_users_rate(address: Address) -> None:
    async with (
        quota(address, {"user": ANONYMOUS}, producer_byte_rate=RATE),
        producing(address, "one", "measured", connections=2, size_bytes=4000) as one,
        producing(address, "other", "measured", connections=2, size_bytes=4000) as other,
    ):
        rates = await asyncio.gather(one.rate_over(3000), other.rate_over(3000))
        assert sum(rates) <= 1.4 * RATE
        await until_throttled(one)
        await until_throttled(other)


async def test_another_users_quota_limits_nobody(address: Address) -> None:
    async with (
        quota(address, {"user": "alice"}, producer_byte_rate=1000.0),
        producing(address, "free", "measured", connections=1, size_bytes=4000) as produced,
    ):
        await produced.rate_over(1000)
    assert not any(produced.throttle_times_ms)


# -- addresses (KIP-612) -------------------------------------------------------------------------------------------


async def served(address: Address) -> bool:
    """Whether a new connection gets an answer; a refused one is closed within a second or so."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(encode_request(ApiVersionsRequest(), 0, 1, "new"))
        return bool(await reader.read(1))
    except ConnectionResetError:
        return False
    finally:
        writer.close()


async def test_an_address_gets_its_rate_of_connections_and_open_ones_go_on(address: Address) -> None:
    async with client_of(address, "old") as old:
        await old.ask(MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS, version=9)
        async with quota_over(old, {"ip": address.host}, connection_creation_rate=2.0):
            await rate_holds(address)
            await old.ask(MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS, version=9)
    await until_all_are_served(address)


async def rate_holds(address: Address) -> None:
    """A rate of two connections a second, as soon as the process that has the port has heard of it."""
    while False not in await twenty(address):
        pass
    many = await twenty(address)
    assert sum(many) <= 8 and False in many
    while not await served(address):
        pass


async def until_all_are_served(address: Address) -> None:
    while not all(await twenty(address)):
        pass


async def twenty(address: Address) -> list[bool]:
    """Of twenty new connections at once, which are served."""
    return await asyncio.gather(*(served(address) for _ in range(20)))


@asynccontextmanager
async def quota_over(client: Client, entity: dict[str, str | None], **values: float) -> AsyncIterator[None]:
    """Sets quotas over a connection that is open: a new one might be refused."""
    assert await alter_quotas(client, entity, **values) == (0, None)
    try:
        yield
    finally:
        assert await alter_quotas(client, entity, **dict.fromkeys(values)) == (0, None)


# -- controller mutations (KIP-599) --------------------------------------------------------------------------------


async def create(client: Client, names: list[str], partitions: int, version: int = 7) -> Any:
    topic = CreateTopicsRequest.CreatableTopic
    topics = [topic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False)
    return await client.ask(request, timeout_ms=TIMEOUT_MS, version=version)


async def test_mutations_above_the_rate_are_refused_and_the_client_is_muted(address: Address) -> None:
    entity: dict[str, str | None] = {"user": ANONYMOUS, "client-id": "maker"}
    throttled = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    async with quota(address, entity, controller_mutation_rate=0.01), client_of(address, "maker") as maker:
        answer = await create(maker, ["m1", "m2"], 5)
        assert [(row.name, row.error_code) for row in answer.topics] == [("m1", 0), ("m2", throttled)]
        assert answer.throttle_time_ms == 1000  # the longest of this cluster
        begun_ms = CLOCK.monotonic_ms()
        growing = CreatePartitionsRequest.CreatePartitionsTopic(name="m1", count=6, assignments=None)
        request = CreatePartitionsRequest(topics=[growing], timeout_ms=TIMEOUT_MS, validate_only=False)
        grown = await maker.ask(request, timeout_ms=TIMEOUT_MS, version=3)
        assert CLOCK.monotonic_ms() - begun_ms >= 900 and grown.results[0].error_code == throttled
        names = [DeleteTopicsRequest.DeleteTopicState(name="m1")]
        gone = DeleteTopicsRequest(topics=names, timeout_ms=TIMEOUT_MS)
        deleted = await maker.ask(gone, timeout_ms=TIMEOUT_MS, version=6)
        assert deleted.responses[0].error_code == throttled
        assert (await create(maker, ["m3"], 5, version=5)).topics[0].error_code == 0  # old versions are never refused
    async with client_of(address, "somebody") as other:
        assert (await create(other, ["m4"], 100)).throttle_time_ms == 0


# -- request time (KIP-124) ----------------------------------------------------------------------------------------


async def throttled_ms(cluster: Cluster) -> float:
    """What clients were muted for by the gateway, and by the broker that has their sockets after a data request."""
    found = [
        await asyncio.to_thread(cluster.metric, "throttle_time_seconds_total", role) for role in ("gateway", "broker")
    ]
    return 1000 * sum(found)


async def test_a_client_is_held_back_by_its_percentage_of_request_time_and_answered(
    cluster: Cluster, address: Address
) -> None:
    before_ms = await throttled_ms(cluster)
    async with quota(address, {"client-id": "busy"}, request_percentage=0.1), client_of(address, "busy") as busy:
        while await throttled_ms(cluster) == before_ms:
            assert (await busy.ask(MetadataRequest(topics=None), timeout_ms=TIMEOUT_MS, version=9)).brokers
        await busy.ask(MetadataRequest(topics=None), timeout_ms=TIMEOUT_MS, version=9)


async def test_a_producer_is_held_back_by_its_percentage_of_request_time(cluster: Cluster, address: Address) -> None:
    before_ms = await throttled_ms(cluster)
    async with (
        quota(address, {"client-id": "worker"}, request_percentage=0.1),
        producing(address, "worker", "measured", connections=2, size_bytes=4000) as produced,
    ):
        while await throttled_ms(cluster) == before_ms or not produced.bytes_at:
            await produced.rate_over(100)

"""A client at the broker's own listener is charged there; one that a gateway relays is not charged again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.broker import TOPIC_ID, Running, batch, image, running
from support.waiting import HUNG_S
from tailrace.metadata.image import MetadataImage
from tailrace.net.client import Client
from tailrace.quota.entity import ClientQuotas
from tailrace.wire.codec import encode_request
from tailrace.wire.messages import FetchRequest, ListOffsetsRequest, ProduceRequest

LONGEST_MS = 120
RECORDS = batch(b"x" * 2000)


def quota(name: str | None, /, kind: str = "client-id", **values: float) -> dict[Any, Any]:
    return {((kind, name),): values}


@asynccontextmanager
async def broker(path: Path, quotas: dict[Any, Any]) -> AsyncIterator[Running]:
    metadata: MetadataImage = image()
    longest = str(LONGEST_MS)
    async with running(
        path,
        metadata,
        gateway_advertise="brokers",
        gateway_listen="127.0.0.1",
        quota_max_throttle_ms=longest,
    ) as found:
        found.follower.move(quotas=quotas)
        yield found


@asynccontextmanager
async def client_at(found: Running, client_id: str) -> AsyncIterator[Client]:
    assert found.client_address is not None
    client = Client(found.client_address, client_id)
    try:
        yield client
    finally:
        await client.close()


async def produce(client: Client, version: int = 12, acks: int = 1, records: bytes = RECORDS) -> Any:
    data = ProduceRequest.TopicProduceData
    row = data.PartitionProduceData(index=0, records=records)
    topics = [data(name="t", topic_id=TOPIC_ID, partition_data=[row])]
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=5000, topic_data=topics)
    answer = await client.ask(request, timeout_ms=60_000, version=version)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return answer


async def fetch(found: Running, client: Client, version: int, **fields: Any) -> Any:
    request: FetchRequest = found.fetch_request(0, 0, **fields)
    return await client.ask(request, timeout_ms=60_000, version=version)


def throttled_ms(found: Running) -> float:
    return round(found.broker.metrics.counters["throttle_time_seconds"][1]() * 1000)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
async def test_a_producer_above_its_rate_is_told_and_held_for_that_time(
    tmp_path: Path, version: int, acks: int
) -> None:
    async with broker(tmp_path, quota("app", producer_byte_rate=100.0)) as found, client_at(found, "app") as app:
        begun = time.monotonic()
        first = await produce(app, version, acks)
        assert first.throttle_time_ms == LONGEST_MS == throttled_ms(found)
        second = await produce(app, version, acks)
        assert time.monotonic() - begun >= LONGEST_MS / 1000
        assert second.throttle_time_ms == LONGEST_MS
        assert second.responses[0].partition_responses[0].base_offset == 1


async def test_a_client_that_connects_for_each_request_waits_as_one_that_stays(tmp_path: Path) -> None:
    async with broker(tmp_path, quota("app", producer_byte_rate=100.0)) as found:
        begun = time.monotonic()
        for _ in range(3):
            async with client_at(found, "app") as app:
                await produce(app)
        assert time.monotonic() - begun >= 2 * LONGEST_MS / 1000


@pytest.mark.parametrize("version", [4, 11, 12, 16])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_consumer_gets_its_window_and_is_held(tmp_path: Path, version: int, waits: bool) -> None:
    async with broker(tmp_path, quota("app", consumer_byte_rate=1000.0)) as found, client_at(found, "app") as app:
        async with client_at(found, "producer") as producer:
            if waits:
                fetched = asyncio.create_task(fetch(found, app, version, max_wait_ms=20_000))
                await asyncio.sleep(0)
            for _ in range(1 if waits else 5):
                assert (await produce(producer)).throttle_time_ms == 0
        answer = await fetched if waits else await fetch(found, app, version)
        records = answer.responses[0].partitions[0].records
        assert len(records) == len(RECORDS)  # one batch at least, and no more than the window
        assert answer.throttle_time_ms == LONGEST_MS == throttled_ms(found)


async def test_who_has_no_quota_is_not_charged_and_quotas_take_hold_of_open_connections(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as found, client_at(found, "app") as app, client_at(found, "other") as other:
        assert (await produce(app)).throttle_time_ms == 0
        found.follower.move(quotas=quota("app", producer_byte_rate=100.0))
        assert (await produce(app)).throttle_time_ms == LONGEST_MS
        assert (await produce(other)).throttle_time_ms == 0
        found.follower.move(quotas=quota("other", producer_byte_rate=100.0))
        assert (await produce(app)).throttle_time_ms == 0
        assert (await produce(other)).throttle_time_ms == LONGEST_MS
        found.follower.move(quotas={})
        assert (await produce(other)).throttle_time_ms == 0


async def test_another_client_id_on_the_same_connection_is_another_client(tmp_path: Path) -> None:
    async with broker(tmp_path, quota("slow", producer_byte_rate=100.0)) as found:
        assert found.client_address is not None
        reader, writer = await asyncio.open_connection(found.client_address.host, found.client_address.port)
        data = ProduceRequest.TopicProduceData
        topics = [data(name="t", partition_data=[data.PartitionProduceData(index=0, records=RECORDS)])]
        request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=5000, topic_data=topics)
        throttles = []
        for client_id in ("fast", "slow", "fast"):
            writer.write(encode_request(request, 3, 1, client_id))
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            throttles.append(int.from_bytes(frame[-4:], "big"))
        writer.close()
    assert throttles == [0, LONGEST_MS, 0]


async def test_what_a_gateway_relays_is_charged_there_alone(tmp_path: Path) -> None:
    async with broker(tmp_path, quota(None, producer_byte_rate=100.0, consumer_byte_rate=100.0)) as found:
        assert (await produce(found.client)).throttle_time_ms == 0
        assert (await fetch(found, found.client, 12)).throttle_time_ms == 0
        assert throttled_ms(found) == 0


async def test_acks_0_is_charged_too(tmp_path: Path) -> None:
    async with broker(tmp_path, quota("app", producer_byte_rate=100.0)) as found:
        assert found.client_address is not None
        reader, writer = await asyncio.open_connection(found.client_address.host, found.client_address.port)
        data = ProduceRequest.TopicProduceData
        topics = [data(name="t", partition_data=[data.PartitionProduceData(index=0, records=RECORDS)])]
        for acks in (0, 1):
            request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=5000, topic_data=topics)
            writer.write(encode_request(request, 3, 1, "app"))
        await reader.readexactly(4)
        writer.close()
        assert throttled_ms(found) == 2 * LONGEST_MS


async def test_request_time_is_charged_and_holds_the_client(tmp_path: Path) -> None:
    async with broker(tmp_path, quota("app", request_percentage=0.001)) as found, client_at(found, "app") as app:
        for requests in (2, 1):  # the first of a connection says who it is
            before = throttled_ms(found)
            for _ in range(requests):
                assert (await produce(app)).throttle_time_ms == 0  # said of the other quotas alone
            assert throttled_ms(found) == before + LONGEST_MS
        offsets = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[])
        begun = time.monotonic()
        await produce(app)
        await app.ask(offsets, timeout_ms=60_000, version=7)  # an ordinary request is served and charged as well
        await app.ask(offsets, timeout_ms=60_000, version=7)
        assert time.monotonic() - begun >= 2 * LONGEST_MS / 1000


async def test_an_address_above_its_rate_of_connections_is_not_served(tmp_path: Path) -> None:
    limits = quota("127.0.0.1", kind="ip", connection_creation_rate=1.0)
    async with broker(tmp_path, limits) as found:
        assert found.client_address is not None
        answered = []
        for _ in range(5):
            reader, writer = await asyncio.open_connection(found.client_address.host, found.client_address.port)
            asked = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[])
            writer.write(encode_request(asked, 7, 1, "app"))
            try:
                answered.append(bool(await reader.read(1)))
            except ConnectionResetError:
                answered.append(False)
            writer.close()
        refused = found.broker.metrics.counters["throttled_connections"][1]()
    assert answered[0] and answered.count(False) == refused >= 1


async def test_changed_quotas_are_parsed_once_and_other_changes_parse_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path, quota("app", producer_byte_rate=100.0)) as found:
        parsed: list[Any] = []
        parse = ClientQuotas.__init__

        def counted(self: ClientQuotas, quotas: Any = None) -> None:
            parsed.append(quotas)
            parse(self, quotas)

        monkeypatch.setattr(ClientQuotas, "__init__", counted)
        changed = quota("other", producer_byte_rate=100.0)
        found.follower.move(quotas=changed)
        assert parsed == [changed]
        found.follower.move(brokers=dict(found.follower.image.brokers), services={})
        assert parsed == [changed]


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize(("rate", "batches"), [(1000.0, 1), (10_000.0, 2)])  # 2: what fits, less than the window
async def test_a_window_below_min_bytes_is_not_waited_for(
    tmp_path: Path, version: int, rate: float, batches: int
) -> None:
    """As in Kafka min_bytes is lowered with max_bytes: else each answer of a small window would wait max_wait_ms."""
    async with broker(tmp_path, quota("app", consumer_byte_rate=rate)) as found, client_at(found, "app") as app:
        async with client_at(found, "producer") as producer:
            for _ in range(3):
                await produce(producer)
        async with asyncio.timeout(HUNG_S):
            answer = await fetch(found, app, version, min_bytes=1 << 20, max_wait_ms=600_000)
        assert len(answer.responses[0].partitions[0].records) == batches * len(RECORDS)

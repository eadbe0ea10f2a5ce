"""Raw clients that send as fast as they are let, on many connections, and note when how many bytes were answered.

They ignore throttle_time_ms on purpose, as several real clients do: only the muted socket holds them back (KIP-219).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient

from support.batches import Batch, record
from support.raw import Raw
from support.stage import leads
from support.waiting import until
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.runtime.clock import SystemClock
from tailrace.testing import Cluster
from tailrace.wire.messages import AlterClientQuotasRequest, FetchRequest, ProduceRequest

CLOCK = SystemClock()
_TIMEOUT_MS = 30_000
_PRODUCE_VERSION, _FETCH_VERSION = 9, 12


@contextmanager
def measured_cluster(*arguments: str, **settings: str) -> Iterator[Cluster]:
    """A cluster with the topic "measured"; underscores of settings stand for dots."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    with Cluster(port=0, arguments=arguments, settings=dotted) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        try:
            admin.create_topics({"measured": {"num_partitions": 1, "replication_factor": 1}})
        finally:
            admin.close()
        until_led(Address.parse(running.bootstrap), "measured")
        yield running


def until_led(node: Address, topic: str) -> None:
    """Waits until the node leads the topic: what is produced here may not fail."""
    with Raw(node.host, node.port) as client:
        until(lambda: leads(client, topic), f"{topic} is led")


@dataclass
class Answered:
    """(monotonic ms, bytes) of every answer, and the throttle times they named."""

    bytes_at: list[tuple[float, int]] = field(default_factory=list)
    throttle_times_ms: list[int] = field(default_factory=list)

    def add(self, size_bytes: int, throttle_time_ms: int) -> None:
        self.bytes_at.append((CLOCK.monotonic_ms(), size_bytes))
        self.throttle_times_ms.append(throttle_time_ms)

    async def rate_over(self, window_ms: float) -> float:
        """Bytes per second of the answers that come in the next window."""
        start_ms = CLOCK.monotonic_ms()
        await CLOCK.sleep(window_ms)
        end_ms = CLOCK.monotonic_ms()
        counted = sum(size for at_ms, size in self.bytes_at if start_ms <= at_ms < end_ms)
        return counted * 1000 / (end_ms - start_ms)


async def alter_quotas(
    over: Address | Client, entity: dict[str, str | None], **values: float | None
) -> tuple[int, str | None]:
    """Sets quotas, or removes those given as None; returns error code and message."""
    request = AlterClientQuotasRequest
    entry = request.EntryData
    client = over if isinstance(over, Client) else Client(over, "quota-admin")
    ops = [entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    names = [entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    asked = request(entries=[entry(entity=names, ops=ops)], validate_only=False)
    try:
        answer = await client.ask(asked, timeout_ms=_TIMEOUT_MS, version=1)
    finally:
        if client is not over:
            await client.close()
    return answer.entries[0].error_code, answer.entries[0].error_message


@asynccontextmanager
async def producing(
    address: Address,
    client_id: str,
    topic: str,
    *,
    connections: int,
    size_bytes: int,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Answered]:
    """Produces on every connection, one request at a time."""
    records = Batch(records=[record(0, bytes(size_bytes))]).encode()
    data = ProduceRequest.TopicProduceData

    async def send(client: Client, answered: Answered) -> None:
        partition = data.PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            acks=1, timeout_ms=_TIMEOUT_MS, topic_data=[data(name=topic, partition_data=[partition])]
        )
        answer = await client.ask(request, timeout_ms=_TIMEOUT_MS, version=_PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        answered.add(len(records), answer.throttle_time_ms)

    async with _looping([Client(address, client_id, tls=tls) for _ in range(connections)], send) as answered:
        yield answered


@asynccontextmanager
async def fetching(
    address: Address, client_id: str, topic: str, *, connections: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Answered]:
    """Fetches a topic from its start, over and over."""
    wanted = FetchRequest.FetchTopic

    async def send(client: Client, answered: Answered) -> None:
        partition = wanted.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[wanted(topic=topic, partitions=[partition])]
        )
        answer = await client.ask(request, timeout_ms=_TIMEOUT_MS, version=_FETCH_VERSION)
        assert answer.error_code == 0, answer
        answered.add(
            sum(len(p.records or b"") for topic in answer.responses for p in topic.partitions), answer.throttle_time_ms
        )

    async with _looping([Client(address, client_id, tls=tls) for _ in range(connections)], send) as answered:
        yield answered


@asynccontextmanager
async def _looping(
    clients: list[Client], send: Callable[[Client, Answered], Coroutine[Any, Any, None]]
) -> AsyncIterator[Answered]:
    answered = Answered()

    async def loop(client: Client) -> None:
        while True:
            await send(client, answered)

    tasks = [asyncio.create_task(loop(client)) for client in clients]
    try:
        yield answered
    finally:
        for task in tasks:
            task.cancel()
        for client in clients:
            await client.close()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

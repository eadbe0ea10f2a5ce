"""A well-behaved client beside a limited one: a small request at its time on each connection, and how long it takes."""

from __future__ import annotations

import asyncio

from integration.quota.load import CLOCK
from support.batches import Batch, record
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.wire.messages import ProduceRequest

CLIENT = "well-behaved"
TIMEOUT_MS = 30_000
VERSION = 9


def request_of(topic: str, size_bytes: int) -> ProduceRequest:
    """A Produce of one record."""
    data = ProduceRequest.TopicProduceData
    records = Batch(records=[record(0, bytes(size_bytes))]).encode()
    rows = [data.PartitionProduceData(index=0, records=records)]
    return ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[data(name=topic, partition_data=rows)])


async def latencies(
    spot: tuple[Address, str], connections: int, size_bytes: int, pause_ms: float, seconds: float
) -> list[float]:
    """Milliseconds of each request, from when it was due: a stall is not hidden. The first of each connection is not
    counted: to open it takes longer, and of short runs that would be the p99.
    """
    address, topic = spot
    request = request_of(topic, size_bytes)
    found: list[float] = []

    async def run(client: Client) -> None:
        await client.ask(request, timeout_ms=TIMEOUT_MS, version=VERSION)
        due_ms = CLOCK.monotonic_ms()
        end_ms = due_ms + seconds * 1000
        while due_ms < end_ms:
            await CLOCK.sleep(max(0.0, due_ms - CLOCK.monotonic_ms()))
            await client.ask(request, timeout_ms=TIMEOUT_MS, version=VERSION)
            found.append(CLOCK.monotonic_ms() - due_ms)
            due_ms += pause_ms

    clients = [Client(address, CLIENT) for _ in range(connections)]
    try:
        await asyncio.gather(*(run(client) for client in clients))
    finally:
        for client in clients:
            await client.close()
    return found

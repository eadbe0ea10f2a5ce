"""Every API key that is not a client's, and every version of the private ones, asked from outside: nothing is served.

The handed-over connections are served by the same tables as a broker's own listener (gateway.advertise=brokers).
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from integration.gateway.test_handover import Pair, paired
from support.gateway import Client
from support.waiting import HUNG_S
from tailrace.wire import codec
from tailrace.wire.apis import APIS, INTERNAL_APIS
from tailrace_gateway.relay.routes import ROUTES

PRIVATE = sorted(set(INTERNAL_APIS) - set(APIS))
VERSIONS = [
    (key, v) for key in PRIVATE for v in range(INTERNAL_APIS[key].min_version, INTERNAL_APIS[key].max_version + 1)
]
# Keys of Kafka's protocol, ours, and the ends of the field; those of clients are tested where they are served.
STRANGE = [key for key in (*range(-2, 130), *range(9_990, 10_020), 32_767, -32_768) if key not in APIS]


async def connected(pair: Pair, way: str) -> Client:
    return await (pair.world.client() if way == "relayed" else pair.handed())


def state(pair: Pair) -> Any:
    """What a private request might change."""
    broker = pair.broker.broker
    partitions = [
        (p.topic, p.index, p.leader, p.leader_epoch, p.isr, p.shard_epoch) for p in broker.topics.partitions()
    ]
    return partitions, pair.broker.follower.image, pair.world.follower.image, list(pair.world.follower.asked)


@pytest.mark.parametrize("way", ["relayed", "handed over"])
async def test_no_private_api_is_served_in_any_version(tmp_path: Path, way: str) -> None:
    async with paired(tmp_path) as pair:
        await pair.handed()
        before = state(pair)
        for key, version in VERSIONS:
            client = await connected(pair, way)
            client.send(codec.encode_request(INTERNAL_APIS[key].request(), version, 1, "test"))
            async with asyncio.timeout(HUNG_S):
                assert await client.closed(), f"{key} v{version}"
        assert state(pair) == before


@pytest.mark.parametrize("way", ["relayed", "handed over"])
async def test_no_other_key_is_served_whatever_its_version(tmp_path: Path, way: str) -> None:
    async with paired(tmp_path) as pair:
        await pair.handed()
        before = state(pair)
        for key in STRANGE:
            client = await connected(pair, way)
            body = struct.pack(">hhih", key, 0, 1, -1) + bytes(8)
            client.send(struct.pack(">i", len(body)) + body)
            async with asyncio.timeout(HUNG_S):
                assert await client.closed(), str(key)
        assert state(pair) == before


def test_the_gateway_routes_public_apis_alone() -> None:
    assert set(ROUTES) <= set(APIS)
    assert not set(ROUTES) & set(PRIVATE)

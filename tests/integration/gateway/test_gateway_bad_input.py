"""Whatever bytes come as a request, it is answered or its connection is closed; nothing fails inside."""

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import World
from tailrace.wire import codec
from tailrace.wire.apis import APIS
from tailrace_gateway.gateway import GatewayLimits


@pytest.fixture
async def cluster(open_world: Callable[..., World]) -> World:
    """Every kind of peer is there and answers with something."""
    world = open_world(limits=GatewayLimits(node_wait_ms=10, controller_wait_ms=10, coordinator_wait_ms=10))
    world.put_broker(0, await world.peer("broker-0"))
    world.put_topic("__consumer_offsets", [0, 0])
    coordinator = await world.peer("coordinator-0")
    world.put_coordinators({0: 0, 1: 0}, {0: coordinator})
    return world


def damaged(key: int, version: int, rng: random.Random) -> list[bytes]:
    """A plain request of that API: whole, cut at every byte (with the size of what is left), and with wrong bytes."""
    whole = codec.encode_request(APIS[key].request(), version, 1, "c")[4:]
    frames = [whole[:cut] for cut in range(10, len(whole) + 1)]
    for _ in range(10):
        spoilt = bytearray(whole + rng.randbytes(rng.randrange(10)))
        for _ in range(rng.randrange(1, 4)):
            spoilt[rng.randrange(8, len(spoilt))] = rng.randrange(256)
        frames.append(bytes(spoilt))
    return [struct.pack(">i", len(frame)) + frame for frame in frames]


@pytest.mark.parametrize("key", sorted(APIS))
async def test_damaged_requests_are_answered_or_closed(cluster: World, key: int) -> None:
    rng = random.Random(key)
    for version in {APIS[key].min_version, APIS[key].max_version}:
        for frame in damaged(key, version, rng):
            client = await cluster.client()
            client.send(frame)
            client.writer.write_eof()
            await outcome(client)
    assert [line for line in cluster.logged() if line["event"] != "connection closed"] == []


async def outcome(client: Any) -> bytes:
    """All that came until the end."""
    try:
        return bytes(await client.reader.read())
    except ConnectionError:
        return b""

"""A gateway whose cluster has no unfenced broker: it answers when there is one, and never without."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import Client, Peer, World
from support.waiting import turns_until
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace_gateway.gateway import GatewayLimits
from tailrace_gateway.rest.admin import GatewayAdmin

ASKED = [
    (m.MetadataRequest(topics=None), 12),
    (m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4),
    (m.DescribeClusterRequest(), 1),
    (m.DescribeTopicPartitionsRequest(topics=[]), 0),
    (m.CreateTopicsRequest(topics=[], timeout_ms=1), 7),
    (m.DescribeConfigsRequest(resources=[]), 4),
]


async def created(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
    """What a controller answers."""
    response = m.CreateTopicsResponse(topics=[]) if header.api_key == ApiKey.CREATE_TOPICS else None
    answer = response or m.DescribeConfigsResponse(results=[])
    writer.write(codec.encode_response(answer, header.api_version, header.correlation_id))


async def asking(world: World, message: Any, version: int) -> tuple[Client, asyncio.Task[Any]]:
    """A client whose request waits in the gateway."""
    client = await world.client()
    task = asyncio.create_task(client.ask(message, version))
    await turns_until(lambda: any(connection.busy for connection in world.gateway.connections))
    return client, task


@pytest.fixture
async def fresh(open_world: Callable[..., World]) -> World:
    """A cluster whose only broker has not come yet, and a controller."""
    world = open_world(limits=GatewayLimits(unfenced_wait_ms=60_000, coordinator_wait_ms=10))
    controller = await world.peer("controller-0")
    controller.script = created
    world.follower.controller = Address(str(controller.path), -1)
    return world


@pytest.mark.parametrize(("message", "version"), ASKED, ids=[type(message).__name__ for message, _ in ASKED])
async def test_what_is_asked_before_a_broker_lives_is_answered_when_one_does(
    fresh: World, message: Any, version: int
) -> None:
    peer = await fresh.peer("broker-0")
    _, task = await asking(fresh, message, version)
    fresh.put_broker(0, peer, fenced=True)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    fresh.put_broker(0, peer)
    answer = await task
    if "brokers" in answer.fields:
        assert len(answer.brokers) == 1
        assert answer.controller_id == 0


async def test_the_only_broker_is_fenced_and_comes_back(fresh: World) -> None:
    peer = await fresh.peer("broker-0")
    fresh.put_broker(0, peer)
    client = await fresh.client()
    assert (await client.ask(m.MetadataRequest(topics=None), 12)).controller_id == 0
    fresh.put_broker(0, peer, fenced=True)
    asked = asyncio.create_task(client.ask(m.MetadataRequest(topics=None), 12))
    await turns_until(lambda: any(connection.busy for connection in fresh.gateway.connections))
    assert "no broker is unfenced" in str(fresh.log.calls)
    fresh.put_broker(0, peer, epoch=2)
    answer = await asked
    assert ([row.node_id for row in answer.brokers], answer.controller_id) == ([0], 0)


async def test_a_topic_is_not_placed_by_an_image_from_before_a_restart(fresh: World) -> None:
    peer = await fresh.peer("broker-0")
    fresh.put_broker(0, peer)  # in the cache
    fresh.follower.stale = True
    fresh.follower.committed = fresh.follower.image.offset + 1
    _, task = await asking(fresh, m.CreateTopicsRequest(topics=[], timeout_ms=1), 7)
    await turns_until(lambda: bool(fresh.follower.caught_up))
    controller = fresh.peers[0]
    fresh.put_broker(0, peer, epoch=2, fenced=True)
    fresh.follower.stale = False
    for _ in range(10):
        await asyncio.sleep(0)
    assert not controller.frames
    fresh.put_broker(0, peer, epoch=2)
    await task


@pytest.mark.parametrize(("message", "version"), ASKED, ids=[type(message).__name__ for message, _ in ASKED])
async def test_after_a_while_the_connection_is_closed_without_an_answer(
    open_world: Callable[..., World], message: Any, version: int
) -> None:
    world = open_world(limits=GatewayLimits(unfenced_wait_ms=10))
    client = await world.client()
    client.send(codec.encode_request(message, version, 1, "test"))
    assert await client.closed()


async def test_a_client_may_say_hello_meanwhile(fresh: World) -> None:
    client = await fresh.client()
    hello = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    assert (await client.ask(hello, 3)).error_code == ErrorCode.NONE


async def test_a_member_is_heard_while_no_broker_is_unfenced(fresh: World) -> None:
    fresh.put_topic("__consumer_offsets", [-1])
    coordinator = await fresh.peer("coordinator-0")
    fresh.put_coordinators({0: 0}, {0: coordinator})
    client = await fresh.client()
    client.send(codec.encode_request(m.HeartbeatRequest(group_id="g"), 4, 1, "test"))
    await coordinator.received.get()


async def test_a_client_that_left_meanwhile_costs_nothing(fresh: World) -> None:
    client, task = await asking(fresh, *ASKED[0])
    task.cancel()
    client.writer.close()
    peer: Peer = await fresh.peer("broker-0")
    fresh.put_broker(0, peer)
    await turns_until(lambda: not fresh.gateway.connections)


async def test_rest_says_in_a_sentence_that_nothing_can_be_placed(fresh: World) -> None:
    admin = GatewayAdmin(fresh.gateway, lambda: ("127.0.0.1", fresh.listener.base_port))
    with pytest.raises(ApiError) as refused:
        await admin.ask_controller(m.CreateTopicsRequest(topics=[], timeout_ms=1))
    assert refused.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    assert refused.value.message == "No broker is unfenced: none has registered yet."
    assert not fresh.follower.asked

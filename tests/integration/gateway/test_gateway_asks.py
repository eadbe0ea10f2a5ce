"""Whom the gateway asks by itself: for configs of two kinds, and on behalf of the REST API."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import Peer, World
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway.gateway import GatewayLimits
from tailrace_gateway.rest.admin import GatewayAdmin

BROKER, TOPIC, LOGGER = 4, 2, 8


def describing(who: str) -> Callable[..., Any]:
    """Answers DescribeConfigs with the asked one's name as every resource's error message."""

    async def script(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
        if isinstance(request, m.IncrementalAlterConfigsRequest):
            row = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
            rows = [
                row(error_message=who, resource_type=r.resource_type, resource_name=r.resource_name)
                for r in request.resources
            ]
            altered = m.IncrementalAlterConfigsResponse(responses=rows)
            writer.write(codec.encode_response(altered, header.api_version, header.correlation_id))
            return
        one = m.DescribeConfigsResponse.DescribeConfigsResult
        results = [
            one(error_message=who, resource_type=r.resource_type, resource_name=r.resource_name, configs=[])
            for r in request.resources
        ]
        response = m.DescribeConfigsResponse(results=results)
        writer.write(codec.encode_response(response, header.api_version, header.correlation_id))

    return script


@pytest.fixture
async def asked(open_world: Callable[..., World]) -> tuple[World, Peer, Peer]:
    """A broker and a controller that say who described."""
    world = open_world(limits=GatewayLimits(controller_wait_ms=50))
    broker, controller = await world.peer("broker-0"), await world.peer("controller-0")
    broker.script, controller.script = describing("broker"), describing("controller")
    world.put_broker(0, broker)
    world.follower.controller = Address(str(controller.path), -1)
    return world, broker, controller


def resources(*named: tuple[int, str]) -> m.DescribeConfigsRequest:
    one = m.DescribeConfigsRequest.DescribeConfigsResource
    return m.DescribeConfigsRequest(
        resources=[one(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in named]
    )


async def test_a_brokers_own_configs_are_its_to_tell_and_the_rest_the_controllers(
    asked: tuple[World, Peer, Peer],
) -> None:
    world, _, _ = asked
    client = await world.client()
    answer = await client.ask(resources((TOPIC, "t"), (BROKER, "0"), (BROKER, ""), (TOPIC, "u")), 4)
    rows = [(r.resource_type, r.resource_name, r.error_message) for r in answer.results]
    assert rows == [
        (TOPIC, "t", "controller"),
        (BROKER, "0", "broker"),
        (BROKER, "", "controller"),
        (TOPIC, "u", "controller"),
    ]


def alterations(*named: tuple[int, str]) -> m.IncrementalAlterConfigsRequest:
    one = m.IncrementalAlterConfigsRequest.AlterConfigsResource
    return m.IncrementalAlterConfigsRequest(
        resources=[one(resource_type=kind, resource_name=name, configs=[]) for kind, name in named]
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_a_brokers_loggers_are_its_to_alter_and_the_rest_the_controllers(
    asked: tuple[World, Peer, Peer], version: int
) -> None:
    world, _, _ = asked
    client = await world.client()
    request = alterations((BROKER, "0"), (LOGGER, "0"), (TOPIC, "t"), (LOGGER, ""))
    answer = await client.ask(request, version)
    told = [(r.resource_type, r.error_message) for r in answer.responses]
    assert told == [(BROKER, "controller"), (LOGGER, "broker"), (TOPIC, "controller"), (LOGGER, "broker")]


async def test_configs_of_topics_alone_are_relayed_as_they_were(asked: tuple[World, Peer, Peer]) -> None:
    world, broker, controller = asked
    client = await world.client()
    await client.ask(resources((TOPIC, "t")), 4)
    assert controller.frames == [codec.encode_request(resources((TOPIC, "t")), 4, 1, "test")[4:]]
    assert broker.frames == []


async def test_a_brokers_configs_while_it_is_away_are_refused_alone(asked: tuple[World, Peer, Peer]) -> None:
    world, broker, _ = asked
    await broker.stop()
    client = await world.client()
    answer = await client.ask(resources((BROKER, "0"), (TOPIC, "t")), 4)
    codes = [r.error_code for r in answer.results]
    assert codes == [ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NONE]


async def test_a_brokers_loggers_while_it_is_away_are_refused_alone(asked: tuple[World, Peer, Peer]) -> None:
    world, broker, _ = asked
    await broker.stop()
    client = await world.client()
    answer = await client.ask(alterations((LOGGER, "0"), (TOPIC, "t")), 1)
    codes = [r.error_code for r in answer.responses]
    assert codes == [ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NONE]


@pytest.fixture
async def admin(asked: tuple[World, Peer, Peer]) -> Any:
    world, _, _ = asked
    admin = GatewayAdmin(world.gateway, lambda: ("gw.example", 9000))
    yield admin
    await admin.close()


async def test_the_rest_api_asks_a_broker_and_is_told_its_address(admin: GatewayAdmin) -> None:
    answer = await admin.ask_broker(0, resources((BROKER, "0")))
    assert [r.error_message for r in answer.results] == ["broker"]
    assert admin.address_of(0) == ("gw.example", 9000)
    assert admin.address_of(3) == ("gw.example", 9003)


async def test_the_rest_api_is_refused_where_nobody_can_be_asked(admin: GatewayAdmin) -> None:
    for asking, code in (
        (admin.ask_broker(7, resources()), ErrorCode.BROKER_NOT_AVAILABLE),
        (admin.ask_group("g", m.DescribeGroupsRequest(groups=["g"])), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ):
        with pytest.raises(ApiError) as refused:
            await asking
        assert refused.value.code == code


async def test_the_rest_api_asks_every_owner_of_a_shard_once(
    asked: tuple[World, Peer, Peer], admin: GatewayAdmin
) -> None:
    world, _, _ = asked
    world.put_topic("__consumer_offsets", [0, 0, 0])
    peers = {number: await world.peer(f"coordinator-{number}") for number in (0, 1)}

    async def empty(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        response = m.ListGroupsResponse(groups=[])
        writer.write(codec.encode_response(response, header.api_version, header.correlation_id))

    for peer in peers.values():
        peer.script = empty
    world.put_coordinators({0: 0, 1: 1, 2: 0}, peers)
    assert len(await admin.ask_coordinators(m.ListGroupsRequest())) == 2


async def test_where_no_controller_answers_the_rest_api_says_so_soon(
    asked: tuple[World, Peer, Peer], admin: GatewayAdmin
) -> None:
    world, _, _ = asked
    follower: Any = world.gateway.follower
    waits: list[float] = []

    async def ask_controller(message: Any, timeout_ms: float) -> Any:
        waits.append(timeout_ms)
        raise TimeoutError

    follower.ask_controller = ask_controller
    follower.stale = True
    with pytest.raises(ApiError, match="No controller answers") as refused:
        await admin.ask_controller(resources((TOPIC, "t")))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    follower.stale = False
    with pytest.raises(TimeoutError):  # one that was there may have acted
        await admin.ask_controller(resources((TOPIC, "t")))
    assert waits == [3_000, 10_000]

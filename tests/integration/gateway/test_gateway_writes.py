"""A client reads its writes: what the controller has committed is in the image before the client hears of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import World
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.refuse import refuse
from tailrace_gateway.forward.controller import READ_ONLY
from tailrace_gateway.gateway import GatewayLimits
from tailrace_gateway.relay.routes import ROUTES, Route
from tailrace_gateway.rest.admin import GatewayAdmin


async def created(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
    """What a controller answers."""
    response = m.CreateTopicsResponse(throttle_time_ms=7, topics=[])
    writer.write(codec.encode_response(response, header.api_version, header.correlation_id))


CREATE = m.CreateTopicsRequest(topics=[], timeout_ms=1)


async def test_a_writes_answer_goes_on_when_this_gateways_image_has_what_was_written(world: World) -> None:
    controller = await world.peer("controller-0")
    controller.script = created
    world.follower.controller = Address(str(controller.path), -1)
    world.follower.committed = world.follower.image.offset + 1
    client = await world.client()
    asked = asyncio.create_task(client.ask(CREATE, 7))
    await turns_until(lambda: bool(world.follower.caught_up))
    assert not asked.done()
    world.put_topic("t", [1])
    assert (await asked).throttle_time_ms == 7


async def test_a_writes_answer_does_not_wait_for_ever_for_the_image(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(catch_up_ms=10))
    world.put_live_broker(1)
    controller = await world.peer("controller-0")
    controller.script = created
    world.follower.controller = Address(str(controller.path), -1)
    world.follower.committed = 1000
    client = await world.client()
    assert (await client.ask(CREATE, 7)).throttle_time_ms == 7


@pytest.mark.parametrize("key", [key for key, route in ROUTES.items() if route == Route.CONTROLLER])
async def test_every_write_waits_for_the_image_and_no_read_does(world: World, key: ApiKey) -> None:
    controller = await world.peer("controller-0")
    world.follower.controller = Address(str(controller.path), -1)
    version = APIS[key].max_version

    async def refuse_it(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
        answer = refuse(request, header.api_key, header.api_version, ErrorCode.NONE)
        writer.write(codec.encode_response(answer, header.api_version, header.correlation_id))

    controller.script = refuse_it
    client = await world.client()
    await client.ask(APIS[key].request(), version)
    assert world.follower.caught_up == (key not in READ_ONLY)


@pytest.mark.parametrize(
    ("message", "waits"),
    [(m.CreateTopicsRequest(topics=[], timeout_ms=1), True), (m.DescribeConfigsRequest(resources=[]), False)],
)
async def test_rest_reads_its_writes_too(world: World, message: Any, waits: bool) -> None:
    world.follower.answer = lambda asked: asked
    admin = GatewayAdmin(world.gateway, lambda: ("127.0.0.1", world.listener.base_port))
    await admin.ask_controller(message)
    assert world.follower.caught_up == waits

"""What a client at the broker asks of a gateway: while there is none, and where the answer is large."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
import structlog

from support.pieces import whole
from support.sessions import session_of
from support.waiting import turns_until
from tailrace.clock import ManualClock
from tailrace.metadata.image import MetadataImage, ServiceImage
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service
from tailrace.net.identity import Identity
from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.members.endpoints import endpoints_of
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.net.server import Server, serve
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.messages import ListGroupsRequest, ListGroupsResponse
from tailrace_broker.connections import client_listener
from tailrace_broker.connections.client_listener import GatewayRelay

BOOT_ID = "boot"
_OFFSETS = count()


class Asker:
    """As much of a connection as a relay sees."""

    session = session_of(Identity())
    closing = False
    why: str | None = None

    def give_way(self, why: str) -> None:
        self.why = why


CONNECTION = Asker()
LIST_GROUPS = memoryview(codec.encode_request(ListGroupsRequest(states_filter=[]), 4, 7, "raw")[4:])


async def list_groups(request: ListGroupsRequest, context: Context, role: None) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=0, groups=[])


async def list_many(request: ListGroupsRequest, context: Context, role: None) -> ListGroupsResponse:
    row = ListGroupsResponse.ListedGroup
    groups = [row(group_id="g" * 1_000, protocol_type="", group_state="") for _ in range(100)]
    return ListGroupsResponse(error_code=0, groups=groups)


async def gateway(address: Address, handler: Handler = list_groups) -> Server:
    service = Service(
        role=None,
        handlers={ApiKey.LIST_GROUPS: handler},
        apis=INTERNAL_APIS,
        log=structlog.get_logger(),
        memory=RoleMemory(),
    )
    return await serve([address], service)


def image_with(*addresses: Address) -> MetadataImage:
    services = {
        ("gateway", n): ServiceImage("gateway", n, n, UUID(int=n), tuple(endpoints_of(address, BOOT_ID)))
        for n, address in enumerate(addresses)
    }
    return MetadataImage(offset=next(_OFFSETS), services=services)


@pytest.fixture
async def follower(tmp_path: Path) -> AsyncIterator[MetadataFollower]:
    nowhere = Address(str(tmp_path / "controller"), -1)
    follower = MetadataFollower([nowhere], "broker-0", ManualClock(), random.Random(0), structlog.get_logger(), None)
    yield follower
    await follower.close()


async def test_a_request_waits_for_the_gateway_that_comes_next(tmp_path: Path, follower: MetadataFollower) -> None:
    old, new = Address(str(tmp_path / "old"), -1), Address(str(tmp_path / "new"), -1)
    await follower._replace(image_with(old))
    relay = GatewayRelay(follower, BOOT_ID, AnswerMemory())
    asked = asyncio.create_task(relay.ask(CONNECTION, LIST_GROUPS))
    await follower._replace(image_with())
    await asyncio.sleep(0)
    server = await gateway(new)
    assert not asked.done()
    await follower._replace(image_with(old, new))
    assert codec.response_correlation_id(whole(await asked)[4:]) == 7
    relay.forget(CONNECTION)
    await server.close()


async def test_it_is_found_without_news_where_it_was(
    tmp_path: Path, follower: MetadataFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_listener, "_KNOCK_MS", 1.0)
    address = Address(str(tmp_path / "s"), -1)
    await follower._replace(image_with(address))  # the last that this broker heard: no controller is active
    relay = GatewayRelay(follower, BOOT_ID, AnswerMemory())
    asked = asyncio.create_task(relay.ask(CONNECTION, LIST_GROUPS))
    for _ in range(10):
        await asyncio.sleep(0)
    server = await gateway(address)
    assert codec.response_correlation_id(whole(await asked)[4:]) == 7
    relay.forget(CONNECTION)
    await server.close()


async def test_it_is_not_waited_for_without_end(follower: MetadataFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_listener, "_ABSENT_MS", 10.0)
    with pytest.raises(Disconnected, match="within 10 ms"):
        await GatewayRelay(follower, BOOT_ID, AnswerMemory()).ask(CONNECTION, LIST_GROUPS)


async def test_large_answers_share_the_memory_of_the_role(tmp_path: Path, follower: MetadataFollower) -> None:
    """The next one is not received before a client has taken the one before, or has gone."""
    address, memory = Address(str(tmp_path / "s"), -1), AnswerMemory(150_000)
    server = await gateway(address, list_many)
    await follower._replace(image_with(address))
    relay, clients = GatewayRelay(follower, BOOT_ID, memory), [Asker() for _ in range(3)]
    first = (await relay.ask(clients[0], LIST_GROUPS))[1]
    assert len(first) == memory.held_bytes > 100_000
    second = asyncio.create_task(relay.ask(clients[1], LIST_GROUPS))
    await turns_until(lambda: memory.waiting_count == 1)
    third = asyncio.create_task(relay.ask(clients[2], LIST_GROUPS))
    await turns_until(lambda: memory.waiting_count == 2)
    memory.give_back(clients[0])
    assert (await second)[1] == first and memory.waiting_count == 1
    relay.forget(clients[2])  # its turn comes after its end
    memory.give_back(clients[1])
    with pytest.raises(Disconnected):
        await third
    await turns_until(lambda: not (memory.waiting_count or memory.held_bytes))
    await server.close()

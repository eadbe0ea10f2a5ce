"""A request with a list above its ceiling, at a listener: answered with its API's error code, or its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from support.largest import Largest
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected
from tailrace.net.dispatch import Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import serve
from tailrace.wire import codec
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.limits import HIGHEST
from tailrace.wire.response_errors import response_errors

SERVED = Largest(APIS[ApiKey.DELETE_GROUPS], "groups_names", 2)


class Handler:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, request: Any, context: Any, role: None) -> Any:
        self.asked += 1
        return APIS[context.api_key].response()


class Other:
    """Another connection."""

    def give_way(self, why: str) -> None:
        pass


OTHER = Other()


@asynccontextmanager
async def listener(path: Path, handler: Handler, memory: RoleMemory | None = None) -> AsyncIterator[Client]:
    service = Service(
        role=None,
        handlers=dict.fromkeys(APIS, handler),
        apis=APIS,
        log=structlog.get_logger(),
        memory=memory or RoleMemory(),
    )
    server = await serve([Address(str(path / "s"), -1)], service)
    client = Client(server.addresses[0], "many")
    try:
        yield client
    finally:
        await client.close()
        await server.close()


async def test_a_refusal_as_large_as_its_request_waits_for_memory(tmp_path: Path) -> None:
    largest, memory = SERVED, RoleMemory()
    async with listener(tmp_path, Handler(), memory) as client:
        await memory.answers.room(OTHER, memory.answers.max_bytes)
        asked = asyncio.create_task(client.ask_raw(largest.with_rows(HIGHEST), timeout_ms=60_000))
        await turns_until(lambda: memory.answers.waiting_count == 1)
        memory.answers.give_back(OTHER)
        assert len(await asked) > HIGHEST
        await turns_until(lambda: not memory.answers.held_bytes)


@pytest.mark.parametrize(
    ("key", "version", "path", "code"),
    [
        (ApiKey.CREATE_TOPICS, 7, "topics", ErrorCode.POLICY_VIOLATION),
        (ApiKey.ALTER_CLIENT_QUOTAS, 1, "entries", ErrorCode.POLICY_VIOLATION),
        (ApiKey.DELETE_GROUPS, 2, "groups_names", ErrorCode.INVALID_REQUEST),
        (ApiKey.LEAVE_GROUP, 5, "members", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_list_above_its_ceiling_is_refused_in_every_place_of_the_answer(
    tmp_path: Path, key: ApiKey, version: int, path: str, code: ErrorCode
) -> None:
    largest, handler = Largest(APIS[key], path, version), Handler()
    async with listener(tmp_path, handler) as client:
        await client.ask_raw(largest.frame(), timeout_ms=60_000)
        assert handler.asked == 1
        for rows in (largest.ceiling.most + 1, HIGHEST):
            answer = await client.ask_raw(largest.with_rows(rows), timeout_ms=60_000)
            response = codec.decode_response(key, version, codec.response_body(key, version, answer))
            found = [error.code for error in response_errors(key, response)]
            assert set(found) == {code} and len(found) in (1, rows)
        assert handler.asked == 1


async def test_more_rows_than_any_list_may_have_close_the_connection_with_a_reason(tmp_path: Path) -> None:
    handler = Handler()
    async with listener(tmp_path, handler) as client:
        with capture_logs() as logs, pytest.raises(Disconnected):
            await client.ask_raw(SERVED.with_rows(HIGHEST + 1), timeout_ms=60_000)
    assert [line["why"] for line in logs if line["event"] == "connection closed"] == [
        "groups_names has more rows than a request may have (docs/limits.md)"
    ]
    assert not handler.asked

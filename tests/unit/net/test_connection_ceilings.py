"""Requests of many rows at a listener: they wait for memory, and with a list above its ceiling they are refused."""

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
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import serve
from tailrace.wire import codec
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.limits import HIGHEST
from tailrace.wire.messages import DeleteGroupsRequest
from tailrace.wire.response_errors import response_errors

SERVED = Largest(APIS[ApiKey.DELETE_GROUPS], "groups_names", 2)


class Handler:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.held_bytes = list[int]()
        self.memory = RoleMemory()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def __call__(self, request: Any, context: Any, role: None) -> Any:
        self.asked += 1
        self.held_bytes.append(self.memory.answers.held_bytes)
        await self.goes_on.wait()
        return APIS[context.api_key].response()


class Other:
    """Another connection."""

    def give_way(self, why: str) -> None:
        pass


OTHER = Other()


@asynccontextmanager
async def listener(path: Path, handler: Handler, name: str = "CLIENT") -> AsyncIterator[Client]:
    service = Service(
        role=None,
        handlers=dict.fromkeys(APIS, handler),
        apis=APIS,
        log=structlog.get_logger(),
        memory=handler.memory,
        listener=name,
    )
    server = await serve([Address(str(path / "s"), -1)], service)
    client = Client(server.addresses[0], "many")
    try:
        yield client
    finally:
        await client.close()
        await server.close()


async def test_the_rows_of_a_large_request_wait_for_memory_and_keep_it_until_the_answer(tmp_path: Path) -> None:
    handler, frame = Handler(), SERVED.with_rows(1_000)
    answers = handler.memory.answers
    async with listener(tmp_path, handler) as client:
        await answers.room(OTHER, answers.max_bytes)
        asked = asyncio.create_task(client.ask_raw(frame, timeout_ms=60_000))
        await turns_until(lambda: answers.waiting_count == 1)
        assert handler.asked == 0
        answers.give_back(OTHER)
        await asked
        assert handler.held_bytes[0] > 10 * len(frame)
        await turns_until(lambda: not answers.held_bytes)


async def test_the_bytes_of_a_request_count_until_it_is_answered(tmp_path: Path) -> None:
    """Those that wait for others to be decoded would have their bytes in memory without a bound."""
    (tmp_path / "other").mkdir()
    handler, large = Handler(), DeleteGroupsRequest(groups_names=["g" * 1_000] * 300)
    frame = codec.encode_request(large, 2, 1, "many")
    handler.goes_on.clear()
    handler.memory = RoleMemory(RequestMemory(len(frame)))
    requests = handler.memory.requests
    async with listener(tmp_path, handler) as client, listener(tmp_path / "other", handler) as another:
        asked = [asyncio.create_task(client.ask_raw(frame, timeout_ms=60_000))]
        await turns_until(lambda: handler.asked == 1)
        asked.append(asyncio.create_task(another.ask_raw(frame, timeout_ms=60_000)))
        await turns_until(lambda: requests.waiting_count == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert requests.waiting_count == 1
        handler.goes_on.set()
        await asyncio.gather(*asked)
        assert requests.waiting_count == 0


async def test_a_service_waits_for_no_client_and_few_rows_keep_no_memory(tmp_path: Path) -> None:
    """A JoinGroup may be large, and wait for minutes."""
    handler, one_row = Handler(), DeleteGroupsRequest(groups_names=["g" * 10_000])
    answers = handler.memory.answers
    async with listener(tmp_path, handler, "INTERNAL") as client:
        await answers.room(OTHER, answers.max_bytes)
        await client.ask_raw(SERVED.with_rows(1_000), timeout_ms=60_000)
        answers.give_back(OTHER)
    async with listener(tmp_path, handler) as client:
        await client.ask_raw(codec.encode_request(one_row, 2, 1, "many"), timeout_ms=60_000)
    assert handler.held_bytes == [answers.max_bytes, 0]


async def test_a_refusal_as_large_as_its_request_waits_for_memory(tmp_path: Path) -> None:
    handler = Handler()
    memory = handler.memory
    async with listener(tmp_path, handler, "INTERNAL") as client:
        await memory.answers.room(OTHER, memory.answers.max_bytes)
        asked = asyncio.create_task(client.ask_raw(SERVED.with_rows(HIGHEST), timeout_ms=60_000))
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

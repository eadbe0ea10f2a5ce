"""The I/O shell over a real Unix socket: order, bounds, refusals, and what a client sees when its peer goes away."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import struct
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import structlog.testing

from support.waiting import HUNG_S, turns_until
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected, UnservedError
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service
from tailrace.net.identity import Identity
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import Server, serve
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.connection import UNTAKEN
from tailrace.wire.messages import (
    ApiVersionsRequest,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)


class Role:
    """A role that remembers who asked and lets a test hold an answer back."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.identities: list[Identity] = []
        self.hold = asyncio.Event()
        self.hold.set()


async def heartbeat(request: HeartbeatRequest, context: Context, role: Role) -> HeartbeatResponse:
    role.asked.append(request.group_id)
    role.identities.append(context.connection.session.identity)
    await role.hold.wait()
    if request.group_id == "refused":
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    if request.group_id == "bug":
        raise ZeroDivisionError
    return HeartbeatResponse(error_code=0)


async def list_groups(request: ListGroupsRequest, context: Context, role: Role) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=0, groups=[])


HANDLERS: dict[int, Handler] = {ApiKey.HEARTBEAT: heartbeat, ApiKey.LIST_GROUPS: list_groups}


@asynccontextmanager
async def running(path: Path, **bounds: Any) -> AsyncIterator[tuple[Role, Address, Server]]:
    role = Role()
    log = structlog.get_logger()
    served: dict[str, Any] = {"handlers": HANDLERS, "apis": INTERNAL_APIS, **bounds}
    service = Service(role=role, log=log, memory=RoleMemory(), **served)
    server = await serve([Address(str(path / "s"), -1)], service)
    try:
        yield role, server.addresses[0], server
    finally:
        await server.close()


def heartbeat_frame(group: str, correlation_id: int) -> bytes:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m", group_instance_id=None)
    return codec.encode_request(request, 4, correlation_id, "raw")


async def raw(address: Address, data: bytes, answers: int = 0) -> list[bytes]:
    """Sends bytes and reads frames until `answers` came, or until the peer closes."""
    reader, writer = await asyncio.open_unix_connection(address.host)
    writer.write(data)
    found: list[bytes] = []
    try:
        while answers == 0 or len(found) < answers:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            found.append(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionResetError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
    return found


async def test_a_connection_that_is_gone_is_freed_without_a_collection(tmp_path: Path) -> None:
    """Collections may be held back for long, and connections come and go meanwhile."""
    async with running(tmp_path) as (_, address, server):
        gc.disable()
        try:
            reader, writer = await asyncio.open_unix_connection(address.host)
            writer.write(heartbeat_frame("g", 1))
            await reader.readexactly(4)
            (gone,) = map(weakref.ref, server.connections)
            writer.close()
            await turns_until(lambda: not server.connections)
            await asyncio.sleep(0)
            assert gone() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("seed", range(5))
async def test_answers_leave_in_request_order_however_the_bytes_arrive(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with running(tmp_path) as (role, address, _):
        reader, writer = await asyncio.open_unix_connection(address.host)
        stream = b"".join(heartbeat_frame(f"g{i}", i) for i in range(40))
        while stream:
            cut = chance.randrange(1, 60)
            writer.write(stream[:cut])
            stream = stream[cut:]
            await writer.drain()
        for i in range(40):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            assert codec.response_correlation_id(await reader.readexactly(size)) == i
        writer.close()
        assert role.asked == [f"g{i}" for i in range(40)]


async def test_one_request_at_a_time_is_handled_per_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as (role, address, _):
        role.hold.clear()
        client = Client(address, "c")
        asks = [asyncio.create_task(ask_heartbeat(client, name)) for name in ("a", "b")]
        other = Client(address, "d")
        assert (await other.ask(ListGroupsRequest(), timeout_ms=60_000)).error_code == 0
        assert role.asked == ["a"]
        role.hold.set()
        assert [answer.error_code for answer in await asyncio.gather(*asks)] == [0, 0]
        assert role.asked == ["a", "b"]
        await client.close()
        await other.close()


async def ask_heartbeat(client: Client, group: str) -> HeartbeatResponse:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m", group_instance_id=None)
    answer: HeartbeatResponse = await client.ask(request, timeout_ms=60_000)
    return answer


async def test_a_service_of_another_version_is_asked_in_the_newest_version_that_both_know(tmp_path: Path) -> None:
    heard: list[int] = []

    async def note(request: HeartbeatRequest, context: Context, role: Role) -> HeartbeatResponse:
        heard.append(context.api_version)
        return HeartbeatResponse(error_code=0)

    older = {**INTERNAL_APIS, ApiKey.HEARTBEAT: replace(INTERNAL_APIS[ApiKey.HEARTBEAT], max_version=1)}
    async with running(tmp_path, handlers={ApiKey.HEARTBEAT: note}, apis=older) as (_, address, _server):
        client = Client(address, "c")
        for _ in range(2):
            assert (await ask_heartbeat(client, "g")).error_code == 0
        await client.close()
    assert heard == [1, 1]


@pytest.mark.parametrize(
    ("served", "why"), [((9, 12), "upgrade this service"), (None, "that service is older, or has another role")]
)
async def test_what_a_service_of_another_version_cannot_serve_is_not_sent_and_the_connection_stays(
    tmp_path: Path, served: tuple[int, int] | None, why: str
) -> None:
    newer = dict(INTERNAL_APIS)
    if served:
        newer[ApiKey.HEARTBEAT] = replace(newer[ApiKey.HEARTBEAT], min_version=served[0], max_version=served[1])
    handlers = {key: handler for key, handler in HANDLERS.items() if served or key != ApiKey.HEARTBEAT}
    async with running(tmp_path, handlers=handlers, apis=newer) as (role, address, _):
        client = Client(address, "c")
        with pytest.raises(UnservedError, match=rf"HEARTBEAT .*needs 0 to 4: {why}$"):
            await ask_heartbeat(client, "g")
        assert client.connected and not role.asked
        assert (await client.ask(ListGroupsRequest(), timeout_ms=60_000)).error_code == 0
        await client.close()


@pytest.mark.parametrize(
    ("group", "code"), [("refused", ErrorCode.NOT_COORDINATOR), ("bug", ErrorCode.UNKNOWN_SERVER_ERROR)]
)
async def test_a_refusal_and_a_bug_are_both_answered(tmp_path: Path, group: str, code: ErrorCode) -> None:
    async with running(tmp_path) as (_, address, _):
        client = Client(address, "c")
        assert (await ask_heartbeat(client, group)).error_code == code
        assert (await ask_heartbeat(client, "fine")).error_code == 0
        await client.close()


async def test_a_relay_with_a_bug_closes_the_connection_and_nothing_else(tmp_path: Path) -> None:
    async def relay(connection: Any, frame: bytes) -> bytes:
        raise ZeroDivisionError

    async with running(tmp_path, relay=relay) as (_, address, _server):
        client, other = Client(address, "c"), Client(address, "c")
        groups, fetch = ListGroupsRequest(), FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[])
        await other.ask(groups, timeout_ms=60_000, version=0)
        with pytest.raises(Disconnected):
            await client.ask(fetch, timeout_ms=60_000, version=4)
        assert (await other.ask(groups, timeout_ms=60_000, version=0)).error_code == 0
        await client.close()
        await other.close()


async def test_an_answer_that_cannot_be_encoded_is_a_bug_that_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(request: ListGroupsRequest, context: Context, role: Role) -> ListGroupsResponse:
        return ListGroupsResponse(
            error_code=0, groups=[ListGroupsResponse.ListedGroup(group_id="g" * 40_000, protocol_type="")]
        )

    monkeypatch.setitem(HANDLERS, ApiKey.LIST_GROUPS, too_long)
    async with running(tmp_path) as (_, address, _server):
        client = Client(address, "c")
        answer = await client.ask(ListGroupsRequest(states_filter=[]), timeout_ms=120_000, version=0)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await ask_heartbeat(client, "g")).error_code == 0
        await client.close()


async def test_what_a_hot_handler_finds_malformed_later_closes_the_connection_with_a_line_that_says_why(
    tmp_path: Path,
) -> None:
    def hot(connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
        later = asyncio.get_running_loop().create_future()
        later.set_exception(codec.Malformed("too many rows"))
        return later

    with structlog.testing.capture_logs() as lines:
        async with running(tmp_path, hot={ApiKey.FETCH: hot}) as (_, address, _server):
            client = Client(address, "c")
            with pytest.raises(Disconnected):
                await client.ask(FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[]), timeout_ms=60_000)
            await client.close()
    assert [(line["event"], line["why"]) for line in lines] == [("connection closed", "too many rows")]


@pytest.mark.parametrize(("step", "states"), [("encode_response", []), ("decode_request", ["x" * 30_000])])
async def test_a_bug_of_the_codec_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, states: list[str]
) -> None:
    def fails(*args: Any) -> Any:
        raise ZeroDivisionError

    async with running(tmp_path) as (_, address, _server):
        monkeypatch.setattr(codec, step, fails)
        client = Client(address, "c")
        with pytest.raises(Disconnected):
            await client.ask(ListGroupsRequest(states_filter=states), timeout_ms=60_000)
        await client.close()


async def test_the_preamble_says_whom_a_connection_speaks_for(tmp_path: Path) -> None:
    identity = Identity("User:alice", "10.0.0.1", 5, "CLIENT", "public", 9092, 77, 2)
    async with running(tmp_path) as (role, address, _):
        client = Client(address, "c", identity)
        await ask_heartbeat(client, "g")
        assert role.identities == [identity]
        await client.close()


async def test_an_unknown_version_of_api_versions_is_answered_in_v0(tmp_path: Path) -> None:
    head = struct.pack(">hhihb", 18, 99, 7, -1, 0)
    async with running(tmp_path) as (_, address, _):
        (answer,) = await raw(address, struct.pack(">i", len(head)) + head, answers=1)
        body = codec.decode_response(ApiKey.API_VERSIONS, 0, codec.response_body(ApiKey.API_VERSIONS, 0, answer))
        assert body.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.max_version) for row in body.api_keys] == [(18, 5)]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 10, 12, 99, 1, -1),
        struct.pack(">ihhih", 10, 777, 0, 1, -1),
        struct.pack(">ihhih", 10, 12, 0, 1, 500),
        heartbeat_frame("g", 1)[:-1] + b"\x55",
    ],
    ids=["http", "tls", "negative", "huge", "version", "key", "client-id", "tags"],
)
async def test_what_cannot_be_parsed_closes_the_connection_and_nothing_else(tmp_path: Path, garbage: bytes) -> None:
    async with running(tmp_path, max_frame_bytes=1_000_000) as (_, address, _):
        good = heartbeat_frame("g", 3)
        frames = await raw(address, good + garbage)
        assert [codec.response_correlation_id(frame) for frame in frames] in ([3], [])
        assert len(await raw(address, good, answers=1)) == 1


async def test_a_frame_larger_than_the_buffer_is_collected_and_the_buffer_stays_small_before(tmp_path: Path) -> None:
    async with running(tmp_path) as (role, address, server):
        client = Client(address, "c")
        await ask_heartbeat(client, "x" * 30_000)
        assert len(role.asked[0]) == 30_000
        idle = Client(address, "idle")
        await idle.ask(ListGroupsRequest(), timeout_ms=60_000)
        assert sorted(connection.buffer_bytes for connection in server.connections)[0] <= 4096
        await client.close()
        await idle.close()


async def test_a_client_that_keeps_sending_while_a_request_is_handled_is_held_back(tmp_path: Path) -> None:
    async with running(tmp_path) as (role, address, server):
        role.hold.clear()
        reader, writer = await asyncio.open_unix_connection(address.host)
        frames = 4_000
        writer.write(b"".join(heartbeat_frame("g" * 800, i) for i in range(frames)))  # some 3 MB
        await until(lambda: any(connection.received_bytes for connection in server.connections))
        (connection,) = server.connections
        await until_same(lambda: connection.received_bytes)
        assert writer.transport.get_write_buffer_size() > 0, "the rest waits at the client"
        assert connection.buffer_bytes <= 524_288
        role.hold.set()
        for i in range(frames):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            assert codec.response_correlation_id(await reader.readexactly(size)) == i
        writer.close()


async def test_a_client_that_does_not_take_its_answers_gets_few_of_them_prepared(tmp_path: Path) -> None:
    calls: list[int] = []
    answer = struct.pack(">ii", 200_004, 7) + bytes(200_000)

    def fetch(connection: Any, version: int, correlation_id: int, body: memoryview) -> list[bytes]:
        calls.append(correlation_id)
        return [answer]

    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, topics=[], rack_id="")
    frames = b"".join(codec.encode_request(request, 12, i, "deaf") for i in range(2000))
    async with running(tmp_path, hot={ApiKey.FETCH: fetch}) as (_, address, server):
        reader, writer = await asyncio.open_unix_connection(address.host, limit=1)
        writer.write(frames)
        await until(lambda: any(connection.core.stops & UNTAKEN for connection in server.connections))
        for _ in range(50):
            await until(iter([False, True]).__next__)
        assert len(calls) < 50  # some MB, of 400
        writer.transport.abort()
        assert reader is not None


async def test_what_follows_a_request_that_waits_is_handled_after_it(tmp_path: Path) -> None:
    waiting: list[asyncio.Future[list[bytes]]] = []

    def fetch(connection: Any, version: int, correlation_id: int, body: memoryview) -> asyncio.Future[list[bytes]]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, topics=[], rack_id="")
    frames = b"".join(codec.encode_request(request, 12, i, "c") for i in range(3))
    async with running(tmp_path, hot={ApiKey.FETCH: fetch}) as (_, address, _):
        reader, writer = await asyncio.open_unix_connection(address.host)
        writer.write(frames)
        for number in range(3):
            await until(lambda number=number: len(waiting) > number)  # type: ignore[misc]
            assert len(waiting) == number + 1
            waiting[number].set_result([struct.pack(">ii", 4, number)])
            assert await reader.readexactly(8) == struct.pack(">ii", 4, number)
        writer.close()


async def test_a_silent_connection_is_closed_and_a_speaking_one_is_not(tmp_path: Path) -> None:
    async with running(tmp_path, deadlines=ConnectionDeadlines(60)) as (_, address, _):
        client = Client(address, "c")
        await ask_heartbeat(client, "g")
        async with asyncio.timeout(HUNG_S):
            await client.lost()


async def test_connections_above_the_limit_are_closed_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, max_connections=1) as (_, address, _):
        first = Client(address, "a")
        await ask_heartbeat(first, "g")
        assert await raw(address, heartbeat_frame("g", 1)) == []
        assert (await ask_heartbeat(first, "g")).error_code == 0
        await first.close()


async def test_a_client_whose_peer_dies_hears_disconnected_and_connects_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as (role, address, _):
        role.hold.clear()
        client = Client(address, "c")
        ask = asyncio.create_task(ask_heartbeat(client, "g"))
        await until(lambda: bool(role.asked))
    with pytest.raises(Disconnected):
        await ask
    with pytest.raises(Disconnected):
        await ask_heartbeat(client, "g")
    async with running(tmp_path) as (_, address, _):
        assert (await ask_heartbeat(client, "g")).error_code == 0
        await client.close()


async def test_a_peer_that_dies_after_its_answer_was_given_up_is_no_error_of_the_loop(tmp_path: Path) -> None:
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    opened: list[asyncio.StreamWriter] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)

    server = await asyncio.start_unix_server(silent, tmp_path / "s")
    client = Client(Address(str(tmp_path / "s"), -1), "me")
    with pytest.raises(TimeoutError):
        await client.ask(HeartbeatRequest(group_id="g"), timeout_ms=20)
    await until(lambda: bool(opened))
    opened[0].transport.abort()
    await client.lost()
    await client.close()
    server.close()
    del client
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []


async def until(holds: Callable[[], bool]) -> None:
    """Lets the loop run until a condition holds; the test's timeout bounds it."""
    loop = asyncio.get_running_loop()
    while not holds():
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


async def until_same(value: Callable[[], int]) -> None:
    """Lets the loop run until a value has not changed in many of its turns."""
    last, same = value(), 0
    while same < 200:
        await asyncio.sleep(0)
        last, same = (last, same + 1) if value() == last else (value(), 0)


async def test_a_late_answer_is_dropped_and_the_next_one_fits(tmp_path: Path) -> None:
    async with running(tmp_path) as (role, address, _):
        role.hold.clear()
        client = Client(address, "c")
        request = HeartbeatRequest(group_id="slow", generation_id=1, member_id="m", group_instance_id=None)
        with pytest.raises(TimeoutError):
            await client.ask(request, timeout_ms=20)
        role.hold.set()
        assert (await client.ask(ListGroupsRequest(), timeout_ms=60_000)).groups == []
        await client.close()


async def test_api_versions_can_be_asked_like_any_api() -> None:
    frame = codec.encode_request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4, 1, "c")
    assert frame[4:6] == b"\x00\x12"


async def test_a_name_that_is_none_is_a_peer_that_is_not_reached() -> None:
    with pytest.raises(Disconnected, match=r"^a\.\.b:9092: "):
        await Client(Address("a..b", 9092), "test").connect()

"""The listener's bounds in time and memory, and clients that end their side before they have read."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop

from support.waiting import turns_until
from tailrace.net.address import Address
from tailrace.net.connection import Connection
from tailrace.net.context import Context
from tailrace.net.dispatch import Service
from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.limits.deadline_check import look_at
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.request_memory import OWN_BYTES
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import Server, serve
from tailrace.net.transport import receiving
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.messages import FetchRequest, HeartbeatRequest, HeartbeatResponse

QUICK = ConnectionDeadlines(idle_ms=400, head_ms=60, dribble_ms=60, dribble_bytes=100)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Role:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()


async def heartbeat(request: HeartbeatRequest, context: Context, role: Role) -> HeartbeatResponse:
    role.asked.append(request.group_id)
    await role.hold.wait()
    return HeartbeatResponse(error_code=0)


def frame(correlation_id: int, group: str = "g") -> bytes:
    return codec.encode_request(
        HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 4, correlation_id, "c"
    )


class World:
    def __init__(self, role: Role, server: Server, log: Any) -> None:
        self.role, self.server, self.log = role, server, log

    @property
    def whys(self) -> list[str]:
        return [call.kwargs["why"] for call in self.log.calls]

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self.server.addresses[0]
        return await asyncio.open_connection(address.host, address.port)

    @property
    def connection(self) -> Connection:
        (connection,) = self.server.connections
        return connection


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[World]:
    role, log = Role(), structlog.testing.CapturingLogger()
    options.setdefault("memory", RoleMemory())
    service = Service(
        role=role,
        handlers={ApiKey.HEARTBEAT: heartbeat},
        apis=INTERNAL_APIS,
        log=structlog.wrap_logger(log, processors=[]),
        **options,
    )
    server = await serve([Address("127.0.0.1", 0)], service)
    try:
        yield World(role, server, log)
    finally:
        role.hold.set()
        await server.close()


async def answers(reader: asyncio.StreamReader) -> list[int]:
    """The correlation ids of every answer until the server closes."""
    found = []
    data = await reader.read()
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        found.append(correlation_id)
        data = data[4 + size :]
    return found


@pytest.mark.parametrize(
    ("sent", "why"),
    [(frame(1)[:3], "no whole request head within"), (frame(1, "g" * 500)[:50], "a frame brought 50 b")],
)
async def test_a_frame_that_never_becomes_whole_is_closed(sent: bytes, why: str) -> None:
    async with running(deadlines=QUICK) as world:
        reader, writer = await world.client()
        writer.write(sent)
        assert await reader.read() == b""
        assert world.whys[0].startswith(why)
        writer.close()


async def test_who_waits_for_an_answer_is_not_idle_and_who_does_not_is() -> None:
    async with running(deadlines=QUICK) as world:
        world.role.hold.clear()
        (waits, writer), (idle, other) = await world.client(), await world.client()
        writer.write(frame(7))
        assert await idle.read() == b""  # as long as that takes, the other one waited, too
        world.role.hold.set()
        assert await answers(waits) == [7]
        assert world.whys == []
        writer.close()
        other.close()


async def test_a_client_that_takes_no_answer_is_closed_in_the_end() -> None:
    def fetch(connection: Any, version: int, correlation_id: int, body: memoryview) -> list[bytes]:
        return [struct.pack(">ii", 4 + 32_000_000, correlation_id), bytes(32_000_000)]

    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, topics=[], rack_id="")
    async with running(deadlines=QUICK, hot={ApiKey.FETCH: fetch}) as world:
        reader, writer = await world.client()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(codec.encode_request(request, 12, 1, "deaf"))
        await turns_until(lambda: world.server.connections)
        await turns_until(lambda: not world.server.connections)
        assert world.whys[0].startswith("the client has taken no answer for")
        writer.transport.abort()
        assert reader is not None


async def test_a_frame_that_is_only_announced_takes_no_memory() -> None:
    size, before = 100_000_000, resident_bytes()
    async with running() as world:
        reader, writer = await world.client()
        head = struct.pack(">ihhi", size, ApiKey.HEARTBEAT, 4, 1)
        writer.write(head + bytes(1_000_000))
        await turns_until(lambda: world.server.connections and world.connection.received_bytes >= 1_000_000)
        assert resident_bytes() - before < 20_000_000
        assert world.server.service.memory.requests.used_bytes == size + 4 - OWN_BYTES
        writer.transport.abort()
        assert reader is not None
        await turns_until(lambda: not world.server.connections)
        assert world.server.service.memory.requests.used_bytes == 0


async def test_large_frames_still_come_whole_and_their_memory_goes_when_it_is_not_used() -> None:
    def produce(connection: Any, version: int, correlation_id: int, body: memoryview) -> list[bytes]:
        return [struct.pack(">iii", 8, correlation_id, len(body))]

    async with running(hot={ApiKey.PRODUCE: produce}) as world:
        reader, writer = await world.client()
        for size in (1_500_000, 9_000_000, 40_000_001):
            writer.write(struct.pack(">ihhih", 10 + size, ApiKey.PRODUCE, 7, size, 0) + bytes(size))
            assert await reader.readexactly(12) == struct.pack(">iii", 8, size, size)
        connection = world.connection
        assert connection.buffer_bytes > 1_500_000
        for _ in range(8):
            look_at(connection, ConnectionDeadlines(), 5000)
        assert connection.buffer_bytes == 4096
        writer.write(frame(5))
        assert (await reader.readexactly(8))[4:] == struct.pack(">i", 5)
        writer.close()


async def test_who_ends_its_side_gets_its_answers_first() -> None:
    async with running(answers_after_end=True) as world:
        world.role.hold.clear()
        reader, writer = await world.client()
        writer.write(b"".join(frame(n) for n in range(5)))
        writer.write_eof()
        await turns_until(lambda: world.role.asked and world.connection.core.ended)
        world.role.hold.set()
        assert await answers(reader) == [0, 1, 2, 3, 4]
        assert len(world.role.asked) == 5 and world.whys == []
        writer.close()


async def test_who_ends_its_side_in_the_middle_of_a_frame_gets_what_it_asked_before() -> None:
    async with running(answers_after_end=True) as world:
        reader, writer = await world.client()
        writer.write(frame(1) + frame(2)[:-1])
        writer.write_eof()
        assert await answers(reader) == [1]
        assert world.whys == ["the connection ended in the middle of a frame"]
        writer.close()


async def test_who_has_ended_is_not_waited_with_for_ever() -> None:
    async with running(answers_after_end=True, deadlines=QUICK) as world:
        world.role.hold.clear()
        reader, writer = await world.client()
        writer.write(frame(1))
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


async def test_between_services_the_end_is_the_end() -> None:
    """A client that has gone must not keep its question with a coordinator."""
    async with running() as world:
        world.role.hold.clear()
        reader, writer = await world.client()
        writer.write(frame(1))
        await turns_until(lambda: world.role.asked)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("size_bytes", [50_000, -1])
@pytest.mark.parametrize("kind", [socket.SO_RCVBUF, socket.SO_SNDBUF])
async def test_a_connection_has_the_buffer_that_is_asked_for(size_bytes: int, kind: int) -> None:
    receives = kind == socket.SO_RCVBUF
    buffers = SocketBuffers(receive_bytes=size_bytes) if receives else SocketBuffers(send_bytes=size_bytes)
    async with running(buffers=buffers) as world:
        _, writer = await world.client()
        await turns_until(lambda: world.server.connections)
        kept_bytes = world.connection.socket.getsockopt(socket.SOL_SOCKET, kind)
        assert (kept_bytes == 2 * 50_000) is (size_bytes > 0), "Linux counts its own bookkeeping in"
        writer.close()


async def test_answers_that_clients_do_not_take_stay_inside_twice_the_budget() -> None:
    """A role has 128 MiB; Fetch does not wait for them, so what is not taken may be 256 MiB, and no more."""
    size_bytes, most, asking = 1 << 20, 4 << 20, 24
    memory = RoleMemory(answers=AnswerMemory(most))
    peaks: list[int] = []

    def large_answer(connection: Any, version: int, correlation_id: int, body: memoryview) -> list[bytes]:
        peaks.append(memory.answers.held_bytes)
        return [struct.pack(">ii", 4 + size_bytes, correlation_id) + bytes(size_bytes)]

    buffers = SocketBuffers(send_bytes=50_000)
    async with running(hot={ApiKey.HEARTBEAT: large_answer}, memory=memory, buffers=buffers) as world:
        clients = [await world.client() for _ in range(asking)]  # each reads 128 KiB, and then no more
        for number, (_, writer) in enumerate(clients):
            writer.write(frame(number))
            await turns_until(lambda asked=number: len(peaks) > asked)  # type: ignore[misc]
        await turns_until(lambda: len(world.server.connections) == asking - memory.answers.gave_way_count)
        assert memory.answers.gave_way_count == asking - 2 * most // size_bytes
        assert 2 * most - size_bytes < max(peaks) <= 2 * most
        assert len(await clients[-1][0].readexactly(8 + size_bytes)) == 8 + size_bytes, "others get theirs whole"
        for _, writer in clients:
            writer.transport.abort()


async def _order_of_large_frames() -> list[str]:
    """Whose frames are handled when two clients have sent eight each, as large as a buffer may be."""
    handled: list[str] = []

    def heartbeat_at_once(connection: Any, version: int, correlation_id: int, body: memoryview) -> list[bytes]:
        handled.append("ab"[correlation_id // 8])
        return [codec.encode_response(HeartbeatResponse(error_code=0), version, correlation_id)]

    async with running(hot={ApiKey.HEARTBEAT: heartbeat_at_once}) as world:
        pairs = [socket.socketpair() for _ in "ab"]
        for _, accepted in pairs:
            accepted.setblocking(False)
            await world.server.adopt(accepted, Connection(world.server))
        for first, (client, _) in zip((0, 8), pairs, strict=True):
            client.sendall(b"".join(frame(first + number, "g" * 20_000) for number in range(8)))
        await turns_until(lambda: len(handled) == 16)
        for client, _ in pairs:
            client.close()
    return handled


def test_a_client_whose_frames_fill_the_buffer_each_time_does_not_keep_the_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiving, "_FULL_BUFFER_BYTES", 16_384)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # asyncio's own loop reads once a turn
        handled = "".join(runner.run(_order_of_large_frames()))
    assert sorted(handled) == sorted("a" * 8 + "b" * 8)
    assert "aaa" not in handled and "bbb" not in handled, handled

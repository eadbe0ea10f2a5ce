"""A server's connections over TLS: the same requests, ends and bounds as without it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import structlog

from support.certificates import Authority, Pair
from support.tls_client import TlsClient, client_tls
from support.waiting import turns_until
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.net.context import Context
from tailrace.net.dispatch import Service
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import Encryption, Server, serve
from tailrace.net.tls import transport as transport_module
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.tls.reload import ServerContexts
from tailrace.net.tls.settings import TlsSettings
from tailrace.net.tls.transport import EncryptedTransport
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.messages import HeartbeatRequest, HeartbeatResponse

LARGE_BYTES = 3_000_000
REQUESTS = 500
SMALL_BYTES = 65_536


class Role:
    """Who asked, by the certificate."""

    def __init__(self) -> None:
        self.principals: list[str] = []


async def heartbeat(request: HeartbeatRequest, context: Context, role: Role) -> HeartbeatResponse | EncodeBuffer:
    role.principals.append(context.connection.session.identity.principal)
    if request.group_id == "large":
        large = EncodeBuffer()
        large += bytes(LARGE_BYTES)
        return large
    return HeartbeatResponse(error_code=0)


def frame(correlation_id: int, group: str = "g") -> bytes:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    return codec.encode_request(request, 4, correlation_id, "c")


class World:
    def __init__(self, role: Role, server: Server, log: Any, trusted: Authority) -> None:
        self.role, self.server, self.log, self.trusted = role, server, log, trusted

    def connect(self, client: Pair | None = None) -> TlsClient:
        """Blocks: for a thread."""
        at = self.server.addresses[0]
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BYTES)
        sock.connect((at.host, at.port))
        return TlsClient(sock, client_tls(self.trusted.certificate, client)).handshake()


@asynccontextmanager
async def running(settings: TlsSettings, trusted: Authority, **options: Any) -> AsyncIterator[World]:
    role, calls, clock = Role(), structlog.testing.CapturingLogger(), SystemClock()
    log = structlog.wrap_logger(calls, processors=[])
    options = {"internal": False, "answers_after_end": True, **options}
    service = Service(
        role=role, handlers={ApiKey.HEARTBEAT: heartbeat}, apis=INTERNAL_APIS, log=log, memory=RoleMemory(), **options
    )
    encryption = Encryption(Handshakes(ServerContexts(settings, clock, log), clock, log))
    server = await serve([Address("127.0.0.1", 0)], service, encryption=encryption)
    try:
        yield World(role, server, calls, trusted)
    finally:
        await server.close()


def correlation_ids(answers: bytes) -> list[int]:
    found, at = [], 0
    while at < len(answers):
        size, correlation_id = struct.unpack_from(">ii", answers, at)
        found.append(correlation_id)
        at += 4 + size
    return found


async def test_requests_are_answered_and_known_by_the_certificate(
    settings: TlsSettings, authority: Authority, alice: Pair
) -> None:
    async with running(settings, authority) as world:
        for who in (alice, None):
            client = Client(world.server.addresses[0], "c", tls=client_tls(authority.certificate, who))
            ask = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            assert (await client.ask(ask, timeout_ms=60_000, version=4)).error_code == 0
            await client.close()
        assert world.role.principals == ["User:CN=alice,OU=eng,O=Example", "User:ANONYMOUS"]


@pytest.mark.parametrize("end", ["of TLS", "of the socket"])
async def test_many_requests_before_the_end_are_all_answered(
    settings: TlsSettings, authority: Authority, end: str
) -> None:
    def ask_and_end(world: World) -> bytes:
        with world.connect() as client:
            client.send(b"".join(map(frame, range(REQUESTS))))
            if end == "of TLS":
                client.say_end()
            else:
                client.socket.shutdown(socket.SHUT_WR)
            return client.read_all()

    async with running(settings, authority) as world:
        answers = await asyncio.to_thread(ask_and_end, world)
        assert correlation_ids(answers) == list(range(REQUESTS))
        await turns_until(lambda: not world.server.connections)


async def test_what_came_with_the_handshake_is_handled(settings: TlsSettings, authority: Authority) -> None:
    """The client's last message and its first request in one packet: the socket tells of both once."""

    def ask_at_once(world: World) -> bytes:
        at = world.server.addresses[0]
        sock = socket.create_connection((at.host, at.port))
        with TlsClient(sock, client_tls(authority.certificate)) as client:
            client.handshake(flush=False)
            client.send(frame(7))
            client.say_end()
            return client.read_all()

    async with running(settings, authority) as world:
        assert correlation_ids(await asyncio.to_thread(ask_at_once, world)) == [7]


async def test_a_large_answer_to_a_slow_reader_arrives_whole_and_holds_requests_back(
    settings: TlsSettings, authority: Authority
) -> None:
    def read_slowly(world: World, go_on: Any) -> bytes:
        with world.connect() as client:
            client.send(frame(1, "large") + b"".join(map(frame, range(2, 6))))
            go_on.result()
            client.say_end()
            return client.read_all()

    async with running(settings, authority, buffers=SocketBuffers(-1, SMALL_BYTES)) as world:
        go_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        proceed = asyncio.run_coroutine_threadsafe(_awaited(go_on), asyncio.get_running_loop())
        reading = asyncio.create_task(asyncio.to_thread(read_slowly, world, proceed))
        await turns_until(lambda: len(world.role.principals) == 1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(world.role.principals) == 1, "a request was handled whose client does not take its answers"
        go_on.set_result(None)
        answers = await reading
        assert correlation_ids(answers) == [1, 2, 3, 4, 5] and len(answers) > LARGE_BYTES


async def _awaited(future: asyncio.Future[None]) -> None:
    await future


async def test_max_connections_counts_handshakes_too(settings: TlsSettings, authority: Authority) -> None:
    async with running(settings, authority, max_connections=2) as world:
        at = world.server.addresses[0]
        opened = [await asyncio.open_connection(at.host, at.port) for _ in range(3)]
        assert await opened[2][0].read() == b""
        assert [call.kwargs["why"] for call in world.log.calls] == ["2 connections are open"]
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize("sent", [b"", frame(1)[:9]])
async def test_idle_and_torn_connections_are_closed(settings: TlsSettings, authority: Authority, sent: bytes) -> None:
    def wait(world: World) -> bytes:
        with world.connect() as client:
            client.send(sent)
            return client.read_all()

    deadlines = ConnectionDeadlines(idle_ms=60, head_ms=60, dribble_ms=60)
    async with running(settings, authority, deadlines=deadlines) as world:
        assert await asyncio.to_thread(wait, world) == b""
        assert len(world.log.calls) == bool(sent)


async def test_a_client_that_breaks_off_is_forgotten(settings: TlsSettings, authority: Authority) -> None:
    async with running(settings, authority) as world:
        client = await asyncio.to_thread(world.connect)
        await turns_until(lambda: len(world.server.connections) == 1)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.close()
        await turns_until(lambda: not world.server.connections)


class Taking:
    """As an encrypted socket whose kernel takes so much of each call, whenever it is asked."""

    context, more = None, False

    def __init__(self, most_bytes: int) -> None:
        self.plain, self._far = socket.socketpair()
        self.most_bytes = most_bytes
        self.taken = bytearray()

    def fileno(self) -> int:
        return self.plain.fileno()

    def send(self, data: memoryview) -> int:
        self.taken += data[: self.most_bytes]
        return min(len(data), self.most_bytes)

    def shutdown(self, how: int) -> None:
        self.plain.shutdown(how)

    def close(self) -> None:
        self.plain.close()
        self._far.close()


class Told(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.events: list[str] = []

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(f"lost {exc}")


async def test_one_turn_sends_a_bounded_part_of_many_buffers() -> None:
    """A fast reader of an answer of many partitions must not keep the event loop for all of it."""
    sock, protocol = Taking(1 << 20), Told()
    transport = EncryptedTransport(sock, None, protocol)  # type: ignore[arg-type]
    pieces = [bytes([number]) * 400_000 for number in range(20)]
    transport.writelines(pieces)
    seen = [len(sock.taken)]
    assert transport.get_write_buffer_size() == 8_000_000 - seen[0] and protocol.events == ["pause"]
    while transport.get_write_buffer_size():
        await asyncio.sleep(0)
        seen.append(len(sock.taken))
    assert max(after - before for before, after in pairwise([0, *seen])) <= 1_200_000
    assert sock.taken == b"".join(pieces) and protocol.events == ["pause", "resume"]
    transport.abort()
    await turns_until(lambda: protocol.events[-1] == "lost None")


async def test_who_takes_something_gets_all_of_what_was_written_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_LINGER_MS", 1.0)
    sock, protocol = Taking(100), Told()
    transport = EncryptedTransport(sock, None, protocol)  # type: ignore[arg-type]
    transport.write(bytes(500_000))
    transport.close()
    await turns_until(lambda: protocol.events[-1] == "lost None")
    assert len(sock.taken) == 500_000


async def test_who_takes_nothing_is_not_waited_for_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_LINGER_MS", 1.0)
    sock, protocol = Taking(100), Told()
    transport = EncryptedTransport(sock, None, protocol)  # type: ignore[arg-type]
    transport.write(bytes(500_000))
    sock.most_bytes = 0
    transport.close()
    await turns_until(lambda: protocol.events[-1] == "lost None")
    assert len(sock.taken) == 100


class Bringing(Taking):
    """Has always more, in memory and in the kernel."""

    more = True

    def __init__(self) -> None:
        super().__init__(0)
        self._far.send(b"unread")
        self.reads = 0

    def recv_into(self, into: memoryview) -> int:
        self.reads += 1
        return 1


class Reading(Told):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pass

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(100))

    def buffer_updated(self, nbytes: int) -> None:
        pass


async def test_one_turn_reads_a_bounded_part_of_what_is_in_memory() -> None:
    sock, protocol = Bringing(), Reading()
    transport = EncryptedTransport(sock, None, protocol)  # type: ignore[arg-type]
    transport.start()
    for _ in range(20):
        before = sock.reads
        transport.pause_reading()
        transport.resume_reading()
        await asyncio.sleep(0)
        assert sock.reads - before <= 4
    assert sock.reads
    transport.abort()
    await turns_until(lambda: protocol.events[-1:] == ["lost None"])

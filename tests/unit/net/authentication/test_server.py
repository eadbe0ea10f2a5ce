"""An internal listener on TCP: nothing is handled before the login, and what does not come to it is closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from tailrace.net.address import Address
from tailrace.net.authentication.client import log_in
from tailrace.net.authentication.secret import Secret
from tailrace.net.authentication.server import WAITING_MAX, Authentication
from tailrace.net.client import Client, Disconnected
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.sasl.login import PasswordLogin
from tailrace.net.server import Server, serve
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    PreambleRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

A, B = b"a" * 32, b"b" * 32
SECRET, OTHER = Secret(A, service="broker-1"), Secret(B, service="broker-7")
FRAME = codec.encode_request(HeartbeatRequest(group_id="x"), 4, 1, "stranger")
HANDSHAKE = bytes(codec.encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, 1, "stranger"))


class Listener:
    """A server on the loopback, and what it was asked."""

    def __init__(self, server: Server, authentication: Authentication, asked: list[str], log: Any) -> None:
        self.server = server
        self.authentication = authentication
        self.asked = asked
        self.address = server.addresses[0]
        self.log = log

    def client(self, secret: Secret | PasswordLogin | None) -> Client:
        return Client(self.address, "role", login=secret)

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port)

    async def closes(self, *parts: bytes) -> bytes:
        """What the listener said until it closed."""
        reader, writer = await self.stream()
        for part in parts:
            writer.write(part)
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    def said(self, event: str) -> list[dict[str, Any]]:
        return [call.kwargs for call in self.log.calls if call.args[0] == event]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Successes, failures, and what waits."""
        known = self.authentication
        return known.successful_count, known.failed_count, known.waiting_count


@asynccontextmanager
async def listening(
    secret: Secret | None = SECRET, deadline_ms: float = 60_000, path: Path | None = None
) -> AsyncIterator[Listener]:
    asked: list[str] = []

    async def heartbeat(request: HeartbeatRequest, context: Context, role: Any) -> HeartbeatResponse:
        asked.append(request.group_id)
        return HeartbeatResponse(error_code=0)

    log = structlog.testing.CapturingLogger()
    authentication = Authentication(secret, SystemClock(), log, deadline_ms)
    handlers: dict[int, Handler] = {ApiKey.HEARTBEAT: heartbeat}
    service = authentication.before(Service(None, handlers, INTERNAL_APIS, log, memory=RoleMemory()))
    server = await serve([Address("127.0.0.1", 0) if path is None else Address(str(path), -1)], service)
    try:
        yield Listener(server, authentication, asked, log)
    finally:
        await server.close()


async def heartbeat(client: Client, group_id: str = "g") -> None:
    try:
        await client.ask(HeartbeatRequest(group_id=group_id), timeout_ms=60_000)
    finally:
        await client.close()


async def test_a_service_with_the_secret_is_served() -> None:
    async with listening() as listener:
        await heartbeat(listener.client(SECRET))
        assert listener.asked == ["g"]
        assert listener.counts == (1, 0, 0)


async def test_a_connection_logs_in_once_and_not_for_each_request() -> None:
    async with listening() as listener:
        client = listener.client(SECRET)
        for number in range(20):
            await client.ask(HeartbeatRequest(group_id=str(number)), timeout_ms=60_000)
        assert listener.counts == (1, 0, 0)
        await client.close()


async def connected(address: Address) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, tuple(address))
    return sock


async def test_a_socket_that_is_not_asyncios_logs_in_too() -> None:
    async with listening() as listener:
        loop = asyncio.get_running_loop()
        with await connected(listener.address) as sock:
            await log_in(sock, SECRET)
            await loop.sock_sendall(sock, FRAME)
            assert await loop.sock_recv(sock, 100)
        assert listener.asked == ["x"]
        other = await connected(listener.address)
        with other, pytest.raises(ConnectionRefusedError, match=r"internal\.secret\.file"):
            await log_in(other, OTHER)


async def test_a_service_of_another_cluster_is_told_which_setting_it_is_and_named_in_the_log() -> None:
    async with listening() as listener:
        with pytest.raises(Disconnected, match=r"another secret.*internal\.secret\.file"):
            await heartbeat(listener.client(OTHER))
        assert listener.asked == []
        (line,) = listener.said("authentication failed")
        assert line["user"] == f"broker-7/{OTHER.ids[0]}"
        assert line["client"].startswith("127.0.0.1:") and "another secret" in line["why"]
        assert A.hex() not in str(line) and B.hex() not in str(line)


async def test_who_knows_the_id_of_a_secret_alone_is_refused() -> None:
    async with listening() as listener:
        guess = PasswordLogin("SCRAM-SHA-256", f"broker-1/{SECRET.ids[0]}", "guess")
        with pytest.raises(Disconnected, match="invalid credentials"):
            await heartbeat(listener.client(guess))
        assert listener.asked == []


async def test_no_other_mechanism_is_served() -> None:
    async with listening() as listener:
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            with pytest.raises(Disconnected, match="but SCRAM-SHA-256"):
                await heartbeat(listener.client(PasswordLogin(mechanism, f"x/{SECRET.ids[0]}", A.hex())))
        assert listener.asked == []


async def test_a_listener_without_a_secret_asks_for_no_login_and_says_so() -> None:
    async with listening(secret=None) as listener:
        with pytest.raises(Disconnected, match=r"without SASL.*internal\.secret\.file"):
            await heartbeat(listener.client(SECRET))
        assert listener.asked == []


@pytest.mark.parametrize(
    "parts",
    [
        (FRAME,),
        (b"GET / HTTP/1.1\r\n\r\n",),
        (b"\x00",),
        (b"\xff" * 100_000,),
        (b"\x00\x00\x04\x01" + bytes(1025),),
        (bytes(codec.encode_request(PreambleRequest(), 0, 1, "stranger")),),
        (HANDSHAKE + bytes(FRAME),),
        (HANDSHAKE + bytes(codec.encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=a,r=b"), 1, 2, "s")),),
    ],
)
async def test_garbage_and_false_logins_are_closed_with_nothing_handled(parts: tuple[bytes, ...]) -> None:
    async with listening(deadline_ms=200) as listener:
        assert len(await listener.closes(*parts)) < 200
        assert listener.asked == []
        assert listener.server.connections == set()
        assert listener.counts == (0, 1, 0)


async def test_a_login_whose_tokens_have_no_request_around_them_is_not_served() -> None:
    """SaslHandshake v0: a connection that logs in so would be counted among those that wait, and give way."""
    async with listening() as listener:
        raw = codec.encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0, 1, "stranger")
        assert await listener.closes(bytes(raw)) == b""
        (line,) = listener.said("connection closed")
        assert line["why"] == "api key 17 version 0 is not served here"


async def test_a_recorded_login_opens_no_second_connection() -> None:
    async with listening() as listener:
        sent: list[bytes] = []

        async def exchange(streams: Any, frame: bytes) -> bytes:
            streams[1].write(frame)
            size = await streams[0].readexactly(4)
            return bytes(await streams[0].readexactly(int.from_bytes(size, "big")))

        async def ask(request: Any, version: int) -> Any:
            sent.append(bytes(codec.encode_request(request, version, 1, "recorded")))
            frame = memoryview(await exchange(streams, sent[-1]))
            key = request.API_KEY
            return codec.decode_response(key, version, codec.response_body(key, version, frame))

        streams = await listener.stream()
        await SECRET.run(ask)
        again = await listener.stream()
        for frame in sent:
            answer = await exchange(again, frame)
        assert b"invalid credentials" in answer
        assert await again[0].read() == b""
        assert listener.counts == (1, 1, 0)
        for _, writer in (streams, again):
            writer.close()


@pytest.mark.parametrize("sent", [0, 1, len(HANDSHAKE) - 1, len(HANDSHAKE)])
async def test_half_a_login_is_closed_at_the_deadline(sent: int) -> None:
    async with listening(deadline_ms=20) as listener:
        await listener.closes(HANDSHAKE[:sent])
        (line,) = listener.said("connection closed")
        assert line["why"].startswith("not authenticated within 20 ms")


async def test_one_that_only_looks_whether_somebody_listens_is_no_failure() -> None:
    async with listening() as listener:
        _, writer = await listener.stream()
        writer.close()
        await writer.wait_closed()
        await heartbeat(listener.client(SECRET))
        assert listener.authentication.failed_count == 0


async def test_the_oldest_of_too_many_gives_way_and_a_service_is_let_in() -> None:
    async with listening() as listener:
        opened = [await listener.stream() for _ in range(WAITING_MAX)]
        more = [await listener.stream()]
        with suppress(ConnectionResetError):
            assert await opened[0][0].read() == b""
        assert listener.authentication.waiting_count <= WAITING_MAX
        await heartbeat(listener.client(SECRET))
        assert listener.asked == ["g"]
        for _, writer in opened + more:
            writer.close()


async def test_a_storm_of_refusals_is_counted_and_not_written_down_one_by_one() -> None:
    async with listening() as listener:
        for _ in range(30):
            await listener.closes(FRAME)
        assert listener.authentication.failed_count == 30
        assert len(listener.log.calls) == 10


async def test_closing_ends_what_waits_to_log_in() -> None:
    async with listening() as listener:
        reader, writer = await listener.stream()
        writer.write(HANDSHAKE[:8])
        await heartbeat(listener.client(SECRET))
        await listener.server.close()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_unix_socket_needs_no_login(tmp_path: Path) -> None:
    async with listening(path=tmp_path / "s") as listener:
        await heartbeat(listener.client(SECRET))
        await heartbeat(listener.client(None))
        assert listener.asked == ["g", "g"]
        assert listener.counts == (0, 0, 0)


async def test_a_unix_socket_takes_no_connection_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.net.server.other_user", lambda sock: 65_534)
    async with listening(path=tmp_path / "s") as listener:
        with pytest.raises(Disconnected):
            await heartbeat(listener.client(None))
        assert listener.asked == []
        assert listener.authentication.failed_count == 1


async def test_a_secret_is_changed_while_services_run() -> None:
    """Each step is done on one side first, then on the other: neither is ever refused, and open connections stay."""
    ours, theirs = Secret(A), Secret(A)
    async with listening(ours) as listener:
        stays = listener.client(theirs)
        await stays.ask(HeartbeatRequest(group_id="0"), timeout_ms=60_000)
        for step in ([A, B], [B, A], [B]):
            for side in (ours, theirs):
                assert side.replace(step)
                await heartbeat(listener.client(theirs), str(step))
        await stays.ask(HeartbeatRequest(group_id="1"), timeout_ms=60_000)
        await stays.close()
        assert listener.authentication.failed_count == 0
        with pytest.raises(Disconnected, match="another secret"):
            await heartbeat(listener.client(Secret(A)))

"""An internal listener on TCP: nothing is decoded before the proof, and what does not come to it is closed."""

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
from tailrace.net.authentication.client import prove
from tailrace.net.authentication.proof import ANSWER_BYTES, HELLO_BYTES, MAGIC, ClientProof, Secret
from tailrace.net.authentication.server import UNPROVEN_MAX, Authentication
from tailrace.net.client import Client, Disconnected
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import Server, serve
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.messages import HeartbeatRequest, HeartbeatResponse

SECRET, OTHER = Secret(b"a" * 32), Secret(b"b" * 32)
FRAME = codec.encode_request(HeartbeatRequest(group_id="x"), 4, 1, "stranger")


class Listener:
    """A server on the loopback, and what it was asked."""

    def __init__(self, server: Server, authentication: Authentication, asked: list[str], log: Any) -> None:
        self.server = server
        self.authentication = authentication
        self.asked = asked
        self.address = server.addresses[0]
        self.log = log

    def client(self, secret: Secret | None) -> Client:
        return Client(self.address, "role", secret=secret)

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

    @property
    def reasons(self) -> list[str]:
        return [call.kwargs["why"] for call in self.log.calls]


@asynccontextmanager
async def listening(
    secret: Secret | None = SECRET, deadline_ms: float = 60_000, path: Path | None = None
) -> AsyncIterator[Listener]:
    asked: list[str] = []

    async def heartbeat(request: HeartbeatRequest, context: Context, role: Any) -> HeartbeatResponse:
        asked.append(request.group_id)
        return HeartbeatResponse(error_code=0)

    log = structlog.testing.CapturingLogger()
    authentication = Authentication(secret, log, deadline_ms)
    handlers: dict[int, Handler] = {ApiKey.HEARTBEAT: heartbeat}
    service = Service(
        None, handlers, INTERNAL_APIS, structlog.get_logger(), authentication=authentication, memory=RoleMemory()
    )
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


async def test_a_role_with_the_secret_is_served() -> None:
    async with listening() as listener:
        await heartbeat(listener.client(SECRET))
        assert listener.asked == ["g"]
        assert (listener.authentication.successful_count, listener.authentication.failed_count) == (1, 0)
        assert listener.authentication.waiting_count == 0


async def test_a_connection_is_proven_once_and_not_for_each_request() -> None:
    async with listening() as listener:
        client = listener.client(SECRET)
        for number in range(20):
            await client.ask(HeartbeatRequest(group_id=str(number)), timeout_ms=60_000)
        assert listener.authentication.successful_count == 1
        await client.close()


async def test_a_socket_that_is_not_asyncios_is_proven_too() -> None:
    async with listening() as listener:
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, tuple(listener.address))
            await prove(sock, SECRET)
            await loop.sock_sendall(sock, FRAME)
            assert await loop.sock_recv(sock, 100)
        assert listener.asked == ["x"]
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, tuple(listener.address))
            with pytest.raises(ConnectionRefusedError, match=r"internal\.secret\.file"):
                await prove(sock, OTHER)


async def test_a_role_of_another_cluster_is_told_which_setting_it_is() -> None:
    async with listening() as listener:
        with pytest.raises(Disconnected, match=r"another secret.*internal\.secret\.file"):
            await heartbeat(listener.client(OTHER))
        assert listener.asked == []


async def test_a_role_that_awaits_a_proof_of_one_that_gives_none_says_so() -> None:
    async with listening(secret=None) as listener:
        with pytest.raises(Disconnected, match=r"internal\.secret\.file"):
            await heartbeat(listener.client(SECRET))
        assert listener.asked == []


async def test_a_role_without_the_secret_is_closed_and_named_in_the_log() -> None:
    async with listening() as listener:
        with pytest.raises(Disconnected):
            await heartbeat(listener.client(None))
        assert listener.asked == []
        (call,) = listener.log.calls
        assert call.kwargs["see"] == "internal.secret.file"
        assert call.kwargs["client"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    "parts",
    [
        (FRAME,),
        (b"GET / HTTP/1.1\r\n\r\n",),
        (b"\x00",),
        (b"\xff" * 100_000,),
        (MAGIC + bytes(32) + bytes(32),),
        (MAGIC + bytes(32) + bytes(32) + FRAME,),
        (MAGIC[:-1] + b"\x02" + bytes(32),),
    ],
)
async def test_garbage_and_false_proofs_are_closed_with_nothing_decoded(parts: tuple[bytes, ...]) -> None:
    async with listening() as listener:
        assert len(await listener.closes(*parts)) in {0, ANSWER_BYTES}
        assert listener.asked == []
        assert listener.server.connections == set()
        assert listener.authentication.failed_count == 1
        assert listener.authentication.waiting_count == 0


async def test_a_recorded_proof_opens_no_second_connection() -> None:
    async with listening() as listener:
        proof = ClientProof(SECRET, bytes(32))
        reader, writer = await listener.stream()
        writer.write(proof.hello)
        recorded = proof.receive(await reader.readexactly(ANSWER_BYTES))
        writer.write(recorded + FRAME)
        assert await reader.read(100)
        writer.close()
        assert listener.asked == ["x"]
        assert len(await listener.closes(proof.hello + recorded + FRAME)) in {0, ANSWER_BYTES}
        assert listener.asked == ["x"]
        assert listener.authentication.failed_count == 1


@pytest.mark.parametrize("sent", [0, 1, len(MAGIC), HELLO_BYTES - 1, HELLO_BYTES])
async def test_half_a_proof_is_closed_at_the_deadline(sent: int) -> None:
    async with listening(deadline_ms=20) as listener:
        assert len(await listener.closes((MAGIC + bytes(32))[:sent])) in {0, ANSWER_BYTES}
        assert listener.reasons == ["its proof of the cluster's secret did not come in time"]


async def test_one_that_only_looks_whether_somebody_listens_is_no_failure() -> None:
    async with listening() as listener:
        _, writer = await listener.stream()
        writer.close()
        await writer.wait_closed()
        await heartbeat(listener.client(SECRET))
        assert listener.authentication.failed_count == 0


async def test_the_oldest_of_too_many_gives_way_and_a_role_is_let_in() -> None:
    async with listening() as listener:
        opened = [await listener.stream() for _ in range(UNPROVEN_MAX)]
        opened[0][1].write(MAGIC)
        more = [await listener.stream()]
        with suppress(ConnectionResetError):
            assert await opened[0][0].read() == b""
        assert listener.authentication.waiting_count <= UNPROVEN_MAX
        await heartbeat(listener.client(SECRET))
        assert listener.asked == ["g"]
        for _, writer in opened + more:
            writer.close()


async def test_a_storm_of_refusals_is_counted_and_not_written_down_one_by_one() -> None:
    async with listening() as listener:
        for _ in range(30):
            await listener.closes(FRAME)
        assert listener.authentication.failed_count == 30
        assert len(listener.log.calls) == 1


async def test_closing_ends_what_waits_to_prove_itself() -> None:
    async with listening() as listener:
        reader, writer = await listener.stream()
        writer.write(MAGIC)
        await heartbeat(listener.client(SECRET))
        await listener.server.close()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_unix_socket_needs_no_proof(tmp_path: Path) -> None:
    async with listening(path=tmp_path / "s") as listener:
        await heartbeat(listener.client(SECRET))
        await heartbeat(listener.client(None))
        assert listener.asked == ["g", "g"]


async def test_a_unix_socket_takes_no_connection_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.net.server.other_user", lambda sock: 65_534)
    async with listening(path=tmp_path / "s") as listener:
        with pytest.raises(Disconnected):
            await heartbeat(listener.client(None))
        assert listener.asked == []
        assert listener.authentication.failed_count == 1

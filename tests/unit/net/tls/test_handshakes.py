"""Handshakes are bounded: in time, in number, in bytes, at a turn of the event loop, and in lines of the log."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from support.certificates import Authority, Pair
from support.tls_client import client_tls
from support.waiting import HUNG_S, turns_until
from tailrace.net.address import Address
from tailrace.net.limits.seldom import LINES
from tailrace.net.tls import handshakes
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.tls.listener import EncryptedListener
from tailrace.net.tls.reload import ServerContexts
from tailrace.net.tls.settings import TlsSettings
from tailrace.runtime.clock import SystemClock


class World:
    """A listener that closes who is through, and remembers the name."""

    def __init__(
        self, settings: TlsSettings, deadline_ms: float, clock: SystemClock | None = None, **options: Any
    ) -> None:
        self.log = structlog.testing.CapturingLogger()
        log, clock = structlog.wrap_logger(self.log, processors=[]), clock or SystemClock()
        self.names: list[str | None] = []
        self.handshakes = Handshakes(
            ServerContexts(settings, clock, log), clock, log, deadline_ms=deadline_ms, **options
        )
        self.listener = EncryptedListener(self.handshakes, lambda sock, host: False, self._through, log)
        self.address = Address("", 0)

    def _through(self, sock: EncryptedSocket, name: str | None) -> None:
        self.names.append(name)
        sock.shutdown(2)
        sock.close()

    @property
    def whys(self) -> list[str]:
        return [call.kwargs["why"] for call in self.log.calls]

    async def connect(self, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port, **options)


@asynccontextmanager
async def running(settings: TlsSettings, deadline_ms: float = 10_000, **options: Any) -> AsyncIterator[World]:
    world = World(settings, deadline_ms, **options)
    world.address = await world.listener.listen(Address("127.0.0.1", 0))
    try:
        yield world
    finally:
        world.listener.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What came before the server's end."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_a_client_has_the_name_of_its_certificate_and_without_one_none(
    settings: TlsSettings, authority: Authority, alice: Pair
) -> None:
    async with running(settings) as world:
        for client in (alice, None):
            reader, writer = await world.connect(ssl=client_tls(authority.certificate, client))
            assert await ended(reader) == b""
            writer.close()
    assert world.names == ["CN=alice,OU=eng,O=Example", None]
    assert not len(world.handshakes) and world.handshakes.done_count == 2


async def test_handshakes_are_counted_by_address(settings: TlsSettings) -> None:
    async with running(settings) as world:
        writers = [(await world.connect(local_addr=(host, 0)))[1] for host in ("127.0.0.1", "127.0.0.2", "127.0.0.1")]
        await turns_until(lambda: len(world.handshakes) == 3)
        assert [world.handshakes.count_of(f"127.0.0.{last}") for last in (1, 2, 3)] == [2, 1, 0]
        for writer in writers[:2]:
            writer.close()
        await turns_until(lambda: len(world.handshakes) == 1)
        assert [world.handshakes.count_of(f"127.0.0.{last}") for last in (1, 2, 3)] == [1, 0, 0]
        writers[2].close()


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
async def test_who_is_silent_or_stops_is_closed_in_time(settings: TlsSettings, sent: bytes) -> None:
    async with running(settings, deadline_ms=40) as world:
        reader, writer = await world.connect()
        writer.write(sent)
        assert await ended(reader) == b""
        assert world.whys == ["no whole handshake within 40 ms"]
        writer.close()


async def test_who_dribbles_is_closed_in_time(settings: TlsSettings) -> None:
    async with running(settings, deadline_ms=60) as world:
        reader, writer = await world.connect()
        closed = asyncio.create_task(ended(reader))
        hello = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(16_000)
        for byte in hello:
            if closed.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        await closed
        assert world.whys == ["no whole handshake within 60 ms"]
        writer.close()


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\x00\x00\x00\x2a\x00\x12\x00\x03", "a plaintext Kafka request was sent to the TLS port"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request was sent to the TLS port"),
        (b"SSH-2.0-x\r\n", "what was sent to the TLS port is no TLS"),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16_380), "the handshake failed: excessive message size"),
    ],
)
async def test_what_is_no_handshake_is_closed_with_one_line(settings: TlsSettings, sent: bytes, why: str) -> None:
    async with running(settings) as world:
        reader, writer = await world.connect()
        writer.write(sent)
        await ended(reader)
        (said,) = world.whys
        assert said.startswith(why)
        writer.close()


async def test_a_storm_of_them_does_not_fill_the_log(settings: TlsSettings) -> None:
    async with running(settings) as world:
        for _ in range(3 * LINES):
            reader, writer = await world.connect()
            writer.write(b"\x00\x00\x00\x2a")
            await ended(reader)
            writer.close()
        assert len(world.whys) == LINES and world.handshakes.failed_count == 3 * LINES


async def test_who_looks_whether_anybody_listens_is_no_line(settings: TlsSettings) -> None:
    async with running(settings) as world:
        _, writer = await world.connect()
        await turns_until(lambda: len(world.handshakes) == 1)
        writer.close()
        await turns_until(lambda: len(world.handshakes) == 0)
        assert world.whys == []


async def test_a_client_that_is_not_trusted_is_told_and_named(settings: TlsSettings, tmp_path: Any) -> None:
    other = Authority(tmp_path, "other")
    stranger = other.sign("stranger", "/CN=stranger")
    context = client_tls(other.certificate, stranger)
    context.check_hostname = False
    context.verify_mode = 0  # type: ignore[assignment]
    async with running(settings) as world:
        reader, writer = await world.connect(ssl=context)
        with pytest.raises(OSError, match=r"(?i)unknown ca"):
            await reader.read()
        writer.close()
        assert world.names == [] and "self-signed certificate in certificate chain" in world.whys[0]


async def test_a_subject_that_no_rule_takes_is_refused(
    settings: TlsSettings, authority: Authority, alice: Pair
) -> None:
    def none(subject: str) -> str:
        raise ValueError(f"no rule fits {subject}")

    async with running(settings, name_of=none) as world:
        reader, writer = await world.connect(ssl=client_tls(authority.certificate, alice))
        await ended(reader)
        writer.close()
        assert world.names == [] and world.whys == ["no rule fits CN=alice,OU=eng,O=Example"]


async def test_a_certificate_that_has_expired_since_its_session_began_is_refused(
    settings: TlsSettings, authority: Authority, alice: Pair
) -> None:
    """A session is resumed without OpenSSL's look at the time."""

    class Later(SystemClock):
        ahead_ms = 0

        def wall_ms(self) -> int:
            return super().wall_ms() + self.ahead_ms

    tls = client_tls(authority.certificate, alice)
    async with running(settings, clock=Later()) as world:
        for ahead_ms in (0, 3 * 86_400_000):
            world.handshakes.clock.ahead_ms = ahead_ms  # type: ignore[attr-defined]
            reader, writer = await world.connect(ssl=tls)
            await ended(reader)
            writer.close()
        assert world.names == ["CN=alice,OU=eng,O=Example"]
        assert world.whys == ["the client's certificate has expired since its session began"]


async def test_an_authority_that_is_no_root_is_trusted_as_in_java(
    settings: TlsSettings, authority: Authority, tmp_path: Path
) -> None:
    between = authority.sign("between", "/CN=between", authority=True)
    carol = Authority.of(between, tmp_path).sign("carol", "/CN=carol")
    async with running(replace(settings, truststore_location=str(between.certificate))) as world:
        reader, writer = await world.connect(ssl=client_tls(authority.certificate, carol))
        assert await ended(reader) == b""
        writer.close()
        assert world.names == ["CN=carol"]


async def test_handshakes_go_in_turns_of_two(settings: TlsSettings) -> None:
    """Between two turns all else that is ready has its own."""
    steps: list[int] = []

    class Step:
        def __init__(self, number: int) -> None:
            self.number = number

        def step(self) -> None:
            steps.append(self.number)

    async with running(settings) as world:
        for number in range(7):
            world.handshakes.ready(Step(number))  # type: ignore[arg-type]
        seen = []
        while len(steps) < 7:
            await asyncio.sleep(0)
            seen.append(len(steps))
        assert seen == [2, 4, 6, 7] and steps == list(range(7))


async def test_of_too_many_the_oldest_that_waits_for_its_client_gives_way(
    settings: TlsSettings, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who connects and is silent keeps nobody out."""
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 3)
    async with running(settings) as world:
        silent = [await world.connect() for _ in range(3)]
        reader, writer = await world.connect(ssl=client_tls(authority.certificate))
        assert await ended(reader) == b"" and world.names == [None]
        assert await ended(silent[0][0]) == b""
        assert world.whys == ["3 newer handshakes are under way"]
        assert len(world.handshakes) == 2
        for _, other in [*silent, (reader, writer)]:
            other.close()


async def test_renegotiation_is_refused(settings: TlsSettings, authority: Authority) -> None:
    """TLS 1.2 alone has it. `openssl s_client` asks for it when it reads R."""

    async with running(settings, deadline_ms=20_000) as world:
        held: list[EncryptedSocket] = []
        world.listener.close()
        world.listener = EncryptedListener(
            world.handshakes, lambda sock, host: False, lambda sock, name: held.append(sock), world.log
        )
        address = await world.listener.listen(Address("127.0.0.1", 0))
        where = f"{address.host}:{address.port}"

        def serve(sock: EncryptedSocket) -> None:
            with suppress(BlockingIOError):
                sock.recv_into(memoryview(bytearray(1 << 18)))

        loop = asyncio.get_running_loop()
        asked = asyncio.create_task(
            asyncio.to_thread(openssl_says, "s_client", "-connect", where, "-tls1_2", "-CAfile", authority.certificate)
        )
        await turns_until(lambda: bool(held))
        loop.add_reader(held[0].fileno(), serve, held[0])
        said = await asked
        loop.remove_reader(held[0].fileno())
        held[0].close()
        assert "RENEGOTIATING" in said and "no renegotiation" in said


def openssl_says(*arguments: Any) -> str:
    done = subprocess.run(
        ["openssl", *map(str, arguments)], input="R\n", capture_output=True, text=True, check=False, timeout=HUNG_S
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("group", ["ffdhe2048", "ffdhe8192", "P-384"])
async def test_a_client_cannot_choose_a_costly_group(settings: TlsSettings, authority: Authority, group: str) -> None:
    """One key exchange with ffdhe8192 takes the server some 150 ms, which are the event loop's."""
    async with running(settings) as world:
        where = f"{world.address.host}:{world.address.port}"
        arguments = ("s_client", "-connect", where, "-groups", group, "-CAfile", authority.certificate)
        await asyncio.to_thread(openssl_says, *arguments)
        assert world.names == [] and world.whys == ["the handshake failed: no suitable key share"]


@pytest.mark.parametrize(
    ("groups", "taken"),
    [("X25519", "X25519"), ("P-256", "ECDH, prime256v1"), ("X25519:P-256", "X25519"), ("P-384:X25519", "X25519")],
)
async def test_x25519_and_p256_are_taken(settings: TlsSettings, authority: Authority, groups: str, taken: str) -> None:
    async with running(settings) as world:
        where = f"{world.address.host}:{world.address.port}"
        arguments = ("s_client", "-connect", where, "-groups", groups, "-CAfile", authority.certificate)
        said = await asyncio.to_thread(openssl_says, *arguments)
        assert world.names == [None] and f"Server Temp Key: {taken}" in said

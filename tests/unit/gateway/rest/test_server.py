"""The REST server on real sockets, inside the caller's event loop."""

import asyncio
import contextlib
import errno
import json
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.wire.messages import ApiMessage
from tailrace_gateway.rest.limits import BODY_BYTES_MAX, REQUESTS_MAX_OF_ONE_ADDRESS
from tailrace_gateway.rest.protocol import DEADLINES_MS, Phase
from tailrace_gateway.rest.server import open_rest
from tailrace_gateway.rest.serving import CONNECTIONS_MAX_OF_ONE_ADDRESS, HEADER_BYTES_MAX


async def test_it_serves_on_every_host_at_one_port_and_leaves_signals_alone(backend: MemoryBackend) -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with open_rest(["127.0.0.1", "::1"], 0, backend, ManualClock(), random.Random(1)) as address:
        port = address.rpartition(":")[2]
        async with httpx.AsyncClient() as client:
            for host in ("127.0.0.1", "[::1]"):
                answer = await client.get(f"http://{host}:{port}/v3/clusters")
                assert answer.json()["metadata"]["self"] == f"http://{host}:{port}/v3/clusters"
        assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", int(port))


OF_NO_MACHINE = "192.0.2.1"  # RFC 5737


async def test_an_address_that_this_machine_does_not_have_is_left_out_but_not_all(backend: MemoryBackend) -> None:
    """As where there is no IPv6, whose loopback is among the defaults."""
    arguments = (0, backend, ManualClock(), random.Random(1))
    async with open_rest([OF_NO_MACHINE, "127.0.0.1"], *arguments) as address, httpx.AsyncClient() as client:
        assert address.startswith("127.0.0.1:")
        assert (await client.get(f"http://{address}/v3/clusters")).status_code == 200
    with pytest.raises(OSError) as refused:
        await open_rest([OF_NO_MACHINE], *arguments).__aenter__()
    assert refused.value.errno == errno.EADDRNOTAVAIL


async def test_two_gateways_share_the_port(backend: MemoryBackend) -> None:
    arguments = (backend, ManualClock(), random.Random(1))
    async with open_rest(["127.0.0.1"], 0, *arguments) as first:
        port = int(first.rpartition(":")[2])
        async with open_rest(["127.0.0.1"], port, *arguments) as second:
            assert second == first


async def test_garbage_and_endless_headers_end_the_connection(backend: MemoryBackend) -> None:
    async with open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1)) as address:
        host, _, port = address.rpartition(":")
        for sent in (
            b"\x00\x00\x00\x12\x00\x03\x00\x09garbage\r\n\r\n",
            b"GET / HTTP/1.1\r\nx: " + b"a" * HEADER_BYTES_MAX * 2,
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400") and json.loads(body)["error_code"] == 400
            writer.close()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, in whatever way."""
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


class HeldBackend(MemoryBackend):
    """Coordinators answer when `hold` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = asyncio.Event()
        self.asked_again = asyncio.Semaphore(0)

    async def ask_coordinators(
        self, message: ApiMessage, version: int | None = None, *, topic: str = GROUP_METADATA_TOPIC
    ) -> list[Any]:
        self.asked_again.release()
        await self.hold.wait()
        return await super().ask_coordinators(message, version, topic=topic)


GET = b"GET /v3/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET /v3/clusters HTTP/1.1\r\nx: "], ids=["silent", "dribbling"])
async def test_connections_without_a_request_keep_nobody_out(backend: MemoryBackend, sent: bytes) -> None:
    async with (
        open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1)) as address,
        AsyncExitStack() as all_,
    ):
        idle = [await all_.enter_async_context(connected(address)) for _ in range(2 * CONNECTIONS_MAX_OF_ONE_ADDRESS)]
        for _, writer in idle:
            writer.write(sent)
        reader, writer = await all_.enter_async_context(connected(address))
        writer.write(GET)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await ended(idle[0][0]) == b""


async def test_where_all_places_are_taken_by_requests_one_more_is_refused_with_a_reason() -> None:
    backend = HeldBackend()
    async with (
        open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1)) as address,
        AsyncExitStack() as all_,
    ):
        asking = [await all_.enter_async_context(connected(address)) for _ in range(CONNECTIONS_MAX_OF_ONE_ADDRESS)]
        for _, writer in asking:
            writer.write(GET.replace(b"clusters", b"clusters/memory/consumer-groups"))
        await asyncio.gather(*(backend.asked_again.acquire() for _ in asking))
        async with connected(address) as (reader, _):
            refusal = await ended(reader)
            assert refusal.startswith(b"HTTP/1.1 503")
            assert b'"error_code": 503' in refusal
        backend.hold.set()
        for reader, _ in asking:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_requests_whose_clients_are_gone_count_as_their_addresses() -> None:
    backend = HeldBackend()
    arguments = (backend, ManualClock(), random.Random(1))
    async with open_rest(["127.0.0.1", "::1"], 0, *arguments) as address, AsyncExitStack() as stack:
        stack.callback(backend.hold.set)
        for _ in range(REQUESTS_MAX_OF_ONE_ADDRESS):
            async with connected(address) as (_, writer):
                writer.write(GET.replace(b"clusters", b"clusters/memory/consumer-groups"))
                await backend.asked_again.acquire()
        for host, status in (("127.0.0.1", b"503"), ("::1", b"200")):
            async with connected(f"{host}:{address.rpartition(':')[2]}") as (reader, writer):
                writer.write(GET)
                assert (await reader.readline()).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    ("sent", "phase"),
    [
        (b"", Phase.HEAD),
        (b"GET / HT", Phase.HEAD),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx", Phase.LAST_READ),
        (b"POST /v3/clusters/memory/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx", Phase.BODY),
        (GET, Phase.NEXT_REQUEST),
    ],
    ids=["nothing", "half a head", "refused before its end", "half a body", "an answered request"],
)
async def test_each_thing_a_client_owes_has_its_deadline(backend: MemoryBackend, sent: bytes, phase: Phase) -> None:
    clock = ManualClock()
    async with open_rest(["127.0.0.1"], 0, backend, clock, random.Random(1)) as address:
        async with connected(address) as (other, writer):  # the server runs when this one is answered
            writer.write(GET)
            await other.readline()
        async with connected(address) as (reader, writer):
            writer.write(sent)
            if phase in (Phase.NEXT_REQUEST, Phase.LAST_READ):
                await reader.readline()
            await writer.drain()
            await turn(address)
            reading = asyncio.ensure_future(ended(reader))
            clock.advance(DEADLINES_MS[phase] - 1)
            await asyncio.sleep(0)
            if phase is not Phase.LAST_READ:  # that one has said its end
                assert not reading.done()
            clock.advance(1)
            await reading


async def turn(address: str) -> None:
    """Returns when the server has read what was sent before: a later connection's request was answered."""
    async with connected(address) as (reader, other):
        other.write(GET)
        await reader.readline()


CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.mark.parametrize("path", ["/v3/clusters/memory/topics", "/v3/clusters/memory/topics/none/records", "/nothing"])
async def test_a_body_after_its_refusal_is_not_read(backend: MemoryBackend, path: str) -> None:
    async with (
        open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1)) as address,
        connected(address) as (reader, writer),
    ):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK * (BODY_BYTES_MAX // 0x10000 + 1))
        answer = await reader.readuntil(b"}")
        assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 404"))
        assert await reader.read() == b""  # it said that nothing more comes

        async def go_on() -> None:
            while True:
                writer.write(CHUNK)
                await writer.drain()

        sending = asyncio.ensure_future(go_on())
        await turn(address)
        assert not sending.done()
        sending.cancel()


async def test_a_client_that_does_not_read_is_cut_off(backend: MemoryBackend) -> None:
    backend.set_topic("wide", 10_000)  # more than the sockets hold
    clock = ManualClock()
    async with (
        open_rest(["127.0.0.1"], 0, backend, clock, random.Random(1)) as address,
        connected(address) as (reader, writer),
    ):
        writer.write(GET.replace(b"clusters", b"clusters/memory/topics/wide/partitions"))
        head = await reader.readuntil(b"\r\n\r\n")  # the reader stops here, with a few hundred KiB in its buffer
        assert b"transfer-encoding: chunked" in head.lower()
        await turn(address)
        clock.advance(DEADLINES_MS[Phase.READER])
        body = await ended(reader)
        assert (b'"partition_id":0,' in body, b'"partition_id":9999,' in body) == (True, False)
        assert not body.endswith(b"\r\n0\r\n\r\n")


async def test_a_request_before_the_api_is_loaded_waits_for_it(backend: MemoryBackend) -> None:
    after = asyncio.Event()
    arguments = (backend, ManualClock(), random.Random(1))
    async with (
        open_rest(["127.0.0.1"], 0, *arguments, after) as address,
        httpx.AsyncClient() as client,
    ):
        early = asyncio.create_task(client.get(f"http://{address}/v3/clusters"))
        after.set()
        assert (await early).status_code == 200


async def test_it_closes_when_it_never_had_to_serve(backend: MemoryBackend) -> None:
    async with open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1), asyncio.Event()) as address:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
    with suppress(ConnectionResetError):  # of a connection that nobody accepted
        assert await reader.read() == b""
    writer.close()

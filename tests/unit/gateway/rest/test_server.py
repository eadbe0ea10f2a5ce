"""The REST server on real sockets, inside the caller's event loop."""

import asyncio
import random
import signal

import httpx
import pytest

from tailrace.clock import ManualClock
from tailrace_gateway.rest.memory_backend import MemoryBackend
from tailrace_gateway.rest.server import open_rest
from tailrace_gateway.rest.serving import HEADER_BYTES_MAX


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
            assert (await reader.read()).startswith(b"HTTP/1.1 400")
            writer.close()


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
        _, writer = await asyncio.open_connection(host, int(port))
    writer.close()

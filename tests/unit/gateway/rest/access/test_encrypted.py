"""The REST API over TLS, by the handshakes of Kafka's listeners."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import structlog

from support.authorizers import Recorder
from support.certificates import Authority, Pair
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.tls.reload import ServerContexts
from tailrace.net.tls.settings import TlsSettings
from tailrace.runtime.clock import SystemClock
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.server import open_rest
from tailrace_gateway.rest.serving import CONNECTIONS_MAX_OF_ONE_ADDRESS

LOG = structlog.get_logger()


class Principals(Recorder):
    """Remembers the users that were asked about."""

    def __init__(self) -> None:
        super().__init__(lambda asked: True)
        self.principals: set[str] = set()

    def authorize(self, principal: str, *rest: object) -> bool:
        self.principals.add(principal)
        return True


@asynccontextmanager
async def served(
    settings: TlsSettings, backend: MemoryBackend, authorizer: Principals | None = None
) -> AsyncIterator[str]:
    clock = SystemClock()  # of certificates
    handshakes = Handshakes(ServerContexts(settings, clock, LOG), clock, LOG)
    access = RestAccess(handshakes, None, authorizer, LOG)
    async with open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1), access=access) as address:
        yield address


def trusting(authority: Authority, own: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if own is not None:
        context.load_cert_chain(own.both)
    return context


@pytest.fixture
def settings(server: Pair, authority: Authority) -> TlsSettings:
    return TlsSettings(keystore_location=str(server.both), truststore_location=str(authority.certificate))


async def test_links_are_https_and_a_plain_client_is_refused(
    settings: TlsSettings, backend: MemoryBackend, authority: Authority
) -> None:
    async with served(settings, backend) as address:
        async with httpx.AsyncClient(verify=trusting(authority)) as client:
            for _ in range(2):  # on one connection
                answer = await client.get(f"https://{address}/v3/clusters")
                assert answer.json()["metadata"]["self"] == f"https://{address}/v3/clusters"
        with pytest.raises(httpx.HTTPError):
            async with httpx.AsyncClient() as client:
                await client.get(f"http://{address}/v3/clusters")


async def test_a_large_answer_comes_whole(settings: TlsSettings, backend: MemoryBackend, authority: Authority) -> None:
    for number in range(2_000):
        backend.set_topic(f"topic-with-a-long-name-{number:05}", 1)
    async with served(settings, backend) as address, httpx.AsyncClient(verify=trusting(authority)) as client:
        answer = await client.get(f"https://{address}/v3/clusters/memory/topics")
        assert len(answer.json()["data"]) == 2_000


async def test_the_user_of_a_certificate_is_who_asks(
    server: Pair, authority: Authority, alice: Pair, backend: MemoryBackend
) -> None:
    settings = TlsSettings(
        keystore_location=str(server.both), truststore_location=str(authority.certificate), client_auth="required"
    )
    principals = Principals()
    async with served(settings, backend, principals) as address:
        async with httpx.AsyncClient(verify=trusting(authority, alice)) as client:
            assert (await client.get(f"https://{address}/v3/clusters")).status_code == 200
        assert {principal.split(",")[0] for principal in principals.principals} == {"User:CN=alice"}
        with pytest.raises((httpx.HTTPError, ssl.SSLError)):
            async with httpx.AsyncClient(verify=trusting(authority)) as client:
                await client.get(f"https://{address}/v3/clusters")


async def test_one_address_has_a_bounded_number_of_connections(
    settings: TlsSettings, backend: MemoryBackend, authority: Authority
) -> None:
    context = trusting(authority)
    async with served(settings, backend) as address:
        host, _, port = address.rpartition(":")
        async with httpx.AsyncClient(verify=context) as client:  # until it is answered the port waits in the backlog
            assert (await client.get(f"https://{address}/v3/clusters")).status_code == 200
        streams = [
            await asyncio.open_connection(host, int(port), ssl=context)
            for _ in range(CONNECTIONS_MAX_OF_ONE_ADDRESS + 1)
        ]
        assert await streams[0][0].read() == b""  # the oldest gave way
        for _, writer in streams:
            writer.transport.abort()

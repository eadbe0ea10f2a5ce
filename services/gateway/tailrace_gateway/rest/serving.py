"""The uvicorn side of the REST API. Importing this is what costs: a third of a second of FastAPI."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

import uvicorn
from fastapi.concurrency import run_in_threadpool

from tailrace.clock import Clock
from tailrace.net.identity import principal_of
from tailrace.runtime.http_connections import HttpConnections
from tailrace_gateway.rest.access.encrypted import EncryptedListening
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.cross_origin import CrossOrigin
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.rest.protocol import DeadlineProtocol
from tailrace_gateway.rest.reading.places import ReadingPlaces

CONNECTIONS_MAX = 128
CONNECTIONS_MAX_OF_ONE_ADDRESS = 64
HEADER_BYTES_MAX = 16 << 10
KEEP_ALIVE_SECONDS = 10


class RestServer(uvicorn.Server):
    """A uvicorn that leaves signals to the role, and is told of its end instead of looking ten times a second.

    Looking costs 1 % of a core, half of what a whole idle cluster may.
    """

    def __init__(self, config: uvicorn.Config, access: RestAccess, places: ReadingPlaces) -> None:
        super().__init__(config)
        self._places = places
        self._access = access
        self._ended = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """With TLS connections come by our handshakes, which are bounded, and not by asyncio's."""
        if (handshakes := self._access.handshakes) is None:
            await super().startup(sockets)
            return
        log = self._access.log
        assert log is not None
        self.servers = [EncryptedListening(sock, handshakes, self._protocol, log) for sock in sockets or ()]  # type: ignore[misc]
        self.started = True

    def _protocol(self, name: str | None) -> asyncio.Protocol:
        """A connection's protocol, of the user whose certificate it showed."""
        config = self.config
        made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
            config=config, server_state=self.server_state, app_state={}, principal=principal_of(name)
        )
        return made

    def end(self) -> None:
        self.should_exit = True
        self._places.end()
        self._ended.set()

    async def main_loop(self) -> None:
        await self._ended.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def import_the_rest() -> None:
    """What FastAPI's anyio imports at its first use, which would be the first request, on the gateway's loop."""
    asyncio.run(run_in_threadpool(int))


def build(
    backend: AdminBackend,
    clock: Clock,
    random: Random,
    own_names: Sequence[str],
    allowed_hosts: Sequence[str],
    cross_origin: CrossOrigin,
    access: RestAccess,
) -> RestServer:
    """A server for sockets that listen already; serve(sockets) runs it until end()."""
    places = HttpConnections(CONNECTIONS_MAX, CONNECTIONS_MAX_OF_ONE_ADDRESS)
    app = create_app(backend, clock, random, HostRules(own_names, allowed_hosts, cross_origin), access)
    return RestServer(
        uvicorn.Config(
            app,
            loop="none",
            http=partial(DeadlineProtocol, clock=clock, places=places),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        ),
        access,
        app.state.reading_places,
    )

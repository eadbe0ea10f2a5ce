"""The uvicorn side of the REST API. Importing this is what costs: a third of a second of FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

import uvicorn
from fastapi.concurrency import run_in_threadpool

from tailrace.clock import Clock
from tailrace.runtime.http_connections import HttpConnections
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.rest.protocol import DeadlineProtocol

CONNECTIONS_MAX = 128
CONNECTIONS_MAX_OF_ONE_ADDRESS = 64
HEADER_BYTES_MAX = 16 << 10
KEEP_ALIVE_SECONDS = 10


class RestServer(uvicorn.Server):
    """A uvicorn that leaves signals to the role, and is told of its end instead of looking ten times a second.

    Looking costs 1 % of a core, half of what a whole idle cluster may.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
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
    backend: AdminBackend, clock: Clock, random: Random, own_names: Sequence[str], allowed_hosts: Sequence[str]
) -> RestServer:
    """A server for sockets that listen already; serve(sockets) runs it until end()."""
    places = HttpConnections(CONNECTIONS_MAX, CONNECTIONS_MAX_OF_ONE_ADDRESS)
    return RestServer(
        uvicorn.Config(
            create_app(backend, clock, random, HostRules(own_names, allowed_hosts)),
            loop="none",
            http=partial(DeadlineProtocol, clock=clock, places=places),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=2 * CONNECTIONS_MAX,  # with requests whose clients are gone
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        )
    )

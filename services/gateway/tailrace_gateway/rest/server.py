"""Serves the REST API in the gateway's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from random import Random

import uvicorn

from tailrace.clock import Clock
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.backend import AdminBackend

CONNECTIONS_MAX = 64
HEADER_BYTES_MAX = 16 << 10
KEEP_ALIVE_SECONDS = 10
_BACKLOG = 64


class _Server(uvicorn.Server):
    """A uvicorn that leaves the process's signals to the role."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def open_rest(
    hosts: Sequence[str], port: int, backend: AdminBackend, clock: Clock, random: Random
) -> AsyncIterator[str]:
    """Listens on all hosts at one port (0 picks one) and yields the first address as host:port.

    Raises OSError when the port is taken. Gateways of one host share the port, as they share their data ports.
    """
    config = uvicorn.Config(
        create_app(backend, clock, random),
        loop="none",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )
    sockets = listen(hosts, port)
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets), name="rest")
    try:
        host, bound = sockets[0].getsockname()[:2]
        yield f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
    finally:
        server.should_exit = True
        await serving
        for listener in sockets:
            listener.close()


def listen(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Listening sockets; a port of 0 becomes the first one's."""
    sockets: list[socket.socket] = []
    try:
        for host in hosts:
            listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if listener.family is socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets

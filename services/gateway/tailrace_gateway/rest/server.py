"""Serves the REST API in the gateway's own event loop. The port listens at once; FastAPI is imported in a thread later,
so that the data path neither waits for it nor stops meanwhile. Requests that come before wait in the backlog.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tailrace.clock import Clock
from tailrace.net.address import Address
from tailrace_gateway.rest.access.rest_access import OPEN, RestAccess
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.cross_origin import NO_OTHERS, CrossOrigin

_BACKLOG = 64


@asynccontextmanager
async def open_rest(
    hosts: Sequence[str],
    port: int,
    backend: AdminBackend,
    clock: Clock,
    random: Random,
    after: asyncio.Event | None = None,
    *,
    own_names: Sequence[str] = (),
    allowed_hosts: Sequence[str] = (),
    cross_origin: CrossOrigin = NO_OTHERS,
    access: RestAccess = OPEN,
) -> AsyncIterator[str]:
    """Listens on all hosts at one port (0 picks one) and yields the first address; serves once `after` is set.

    own_names and allowed_hosts are the names that requests may call this port by, and cross_origin the pages of others
    that may ask (hosts.py); access is what it asks of its clients.

    Raises OSError when the port is taken. Gateways of one host share the port, as they share their data ports.
    """
    sockets = listen(hosts, port)
    stop = asyncio.Event()
    names = (own_names, allowed_hosts, cross_origin)

    async def serve() -> None:
        if after is not None and not await _first_is_set(after, stop):
            return
        importing = asyncio.create_task(asyncio.to_thread(_imported))
        await _first_is_done(importing, stop)
        if importing.done():
            await _run(importing.result().build(backend, clock, random, *names, access), sockets, stop)

    serving = asyncio.create_task(serve(), name="rest")
    try:
        host, bound = sockets[0].getsockname()[:2]
        yield str(Address(host, bound))
    finally:
        stop.set()
        await serving
        for listener in sockets:
            listener.close()


def _imported() -> Any:
    serving = importlib.import_module("tailrace_gateway.rest.serving")
    serving.import_the_rest()
    return serving


async def _run(server: Any, sockets: list[socket.socket], stop: asyncio.Event) -> None:
    running = asyncio.create_task(server.serve(sockets))
    await _first_is_done(running, stop)
    server.end()
    await running


async def _first_is_set(first: asyncio.Event, other: asyncio.Event) -> bool:
    """Waits for either event and says whether the first is set."""
    waiting = asyncio.create_task(first.wait())
    await _first_is_done(waiting, other)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    return first.is_set()


async def _first_is_done(task: asyncio.Task[object], stop: asyncio.Event) -> None:
    """Waits for the task's end or for the event."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stopping


def listen(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Listening sockets; a port of 0 becomes the first one's. Raises OSError.

    A host that is not of this machine is left out, but not all of them.
    """
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for host in hosts:
            try:
                sockets.append(_listening(host, port or (sockets[0].getsockname()[1] if sockets else 0)))
            except OSError as error:
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                absent = error
        if absent and not sockets:
            raise absent
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _listening(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if listener.family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener

"""Health and metrics of a role over HTTP: `/healthz`, `/readyz`, `/metrics`.

It runs in the role's own event loop, so that a loop that hangs has a health page that hangs, and answers one GET per
connection. Bounds: 8 KiB of request, 5 seconds from the connection to the answer's last byte, 32 connections, 16 of one
address; one more than that ends the oldest of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from tailrace.clock import Clock
from tailrace.runtime.http_connections import HttpConnections

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_REQUEST_BYTES_MAX = 8192
_REQUEST_MS_MAX = 5_000
CONNECTIONS_MAX = 32
CONNECTIONS_MAX_OF_ONE_ADDRESS = 16
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Page(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


async def _nothing() -> None: ...


class Pages:
    """What the three paths show at this moment."""

    def __init__(
        self,
        registry: CollectorRegistry,
        is_ready: Callable[[], bool],
        health: Callable[[], dict[str, bool]],
        before_metrics: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._registry = registry
        self._is_ready = is_ready
        self._health = health
        self._before_metrics = before_metrics

    async def prepare(self, head: bytes) -> None:
        """To be awaited right before the answer to a request's head is made."""
        if b" /metrics" in head.split(b"\r\n", 1)[0]:
            await self._before_metrics()

    def get(self, path: str) -> Page:
        if path == "/metrics":
            from prometheus_client import exposition

            return Page(HTTPStatus.OK, _METRICS_TYPE, exposition.generate_latest(self._registry))
        if path == "/readyz":
            return _verdict({"ready": self._is_ready()})
        if path == "/healthz":
            return _verdict(self._health())
        return _text(HTTPStatus.NOT_FOUND, "Not here. Try /healthz, /readyz or /metrics.\n")


def respond(pages: Pages, head: bytes) -> bytes:
    """The whole answer to a request's head; everything but GET and HEAD of a known path is refused."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        page = _text(HTTPStatus.BAD_REQUEST, "This port speaks HTTP/1.1 only.\n")
    elif words[0] not in {b"GET", b"HEAD"}:
        page = _text(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD.\n")
    else:
        page = pages.get(words[1].split(b"?", 1)[0].decode("latin-1"))
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return lines.encode() + (b"" if words[0] == b"HEAD" else page.body)


async def serve_pages(pages: Pages, host: str, port: int, clock: Clock) -> asyncio.Server:
    """Listens on host:port (0 picks one)."""
    connections = HttpConnections(CONNECTIONS_MAX, CONNECTIONS_MAX_OF_ONE_ADDRESS)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        timer = clock.call_later(_REQUEST_MS_MAX, writer.transport.abort)
        try:
            # Each of them may be ended at any moment, so there is always one that gives way.
            connections.admit(writer, peer[0] if peer else "", writer.transport.abort)
            head = await reader.readuntil(b"\r\n\r\n")
            await pages.prepare(head)
            if writer.is_closing():
                return  # it took too long, and uvloop refuses the write
            writer.write(respond(pages, head))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # a prober that went away, sent no request or does not read
        finally:
            writer.transport.abort()
            timer.cancel()
            connections.remove(writer)

    return await asyncio.start_server(answer, host, port, limit=_REQUEST_BYTES_MAX)


def _verdict(checks: dict[str, bool]) -> Page:
    status = HTTPStatus.OK if all(checks.values()) else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(status, "application/json", json.dumps(checks).encode() + b"\n")


def _text(status: HTTPStatus, text: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", text.encode())

"""Records as Server-Sent Events: what comes, as it comes, until the client goes.

Events are `record`, `progress` and `error`; the id of the last event of a group is the cursor behind it, from which a
client that lost its connection goes on (Last-Event-ID). A comment every ten seconds shows that the stream is alive.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from fastapi import Response
from starlette.types import Receive, Scope, Send

from tailrace.reading.positions import written
from tailrace.reading.window import Bounds, FoundRecord
from tailrace_gateway.rest.errors import as_rest_error, body_of
from tailrace_gateway.rest.reading.models import RecordsQuery
from tailrace_gateway.rest.reading.page import filter_state
from tailrace_gateway.rest.reading.places import ReadingPlaces
from tailrace_gateway.rest.reading.reading import Reading, ReadingWish, open_reading
from tailrace_gateway.rest.reading.resources import record_of
from tailrace_gateway.rest.scope import ClusterScope

STREAM_MS_MAX: Final = 600_000  # then the client connects again, and its user is asked for anew
HEARTBEAT_MS: Final = 10_000
_HEARTBEAT: Final = b": heartbeat\n\n"
_RETRY: Final = b"retry: 1000\n\n"


class EventStream(Response):
    """The answer; `deadline` is that of the request, which a stream has not."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        places: ReadingPlaces,
        address: str,
        deadline: asyncio.Timeout | None,
    ) -> None:
        self._events = events
        self._places = places
        self._address = address
        self._deadline = deadline
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One stream; it takes a place, and ends with the client, the server or its time."""
        with self._places.reading(self._address):
            first = await anext(self._events)  # its error is the status
            if self._deadline is not None:
                self._deadline.reschedule(None)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": first, "more_body": True})
            sending = asyncio.create_task(self._send(send))
            gone = asyncio.create_task(_disconnected(receive, sending))
            try:
                await self._places.stream(sending)
            finally:
                gone.cancel()
                sending.cancel()
                _, failed = await asyncio.gather(gone, sending, return_exceptions=True)
            if isinstance(failed, Exception):  # a fault of this program: the server logs it and closes
                raise failed
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, send: Send) -> None:
        try:
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        finally:
            await self._events.aclose()  # type: ignore[attr-defined]


async def _disconnected(receive: Receive, sending: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()


async def events(scope: ClusterScope, wish: ReadingWish, query: RecordsQuery) -> AsyncIterator[bytes]:
    """The stream's bytes, group by group; the first comes once the reading is open. A later error is the last event."""
    bounds = Bounds(query.limit, query.max_bytes, query.max_scanned_records, query.max_scanned_bytes, HEARTBEAT_MS)
    async with open_reading(scope, wish) as reading:
        yield _RETRY
        began_ms = scope.clock.monotonic_ms()
        try:
            while scope.clock.monotonic_ms() - began_ms < STREAM_MS_MAX:
                found = await reading.window.read(bounds, HEARTBEAT_MS)
                yield await scope.backend.run_reading(partial(_group, wish, reading, found)) if found else _HEARTBEAT
                if wish.filter is not None:
                    yield _progress(reading)
        except Exception as wrong:  # noqa: BLE001 — the status is sent
            yield _event("error", body_of(as_rest_error(wrong)))


def _group(wish: ReadingWish, reading: Reading, found: list[FoundRecord]) -> bytes:
    rows = [_event("record", record_of(wish.topic, one, wish.encodings)) for one in found]
    rows[-1] = f"id: {written(reading.window.positions)}\n".encode() + rows[-1]
    return b"".join(rows)


def _progress(reading: Reading) -> bytes:
    """Where a stream with a filter stands, also where it finds nothing."""
    window = reading.window
    scanned = {"scanned_records": window.scanned_records, "scanned_bytes": window.scanned_bytes}
    cursor = written(window.positions)
    return f"id: {cursor}\n".encode() + _event("progress", {"cursor": cursor, **scanned, **filter_state(reading)})


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()

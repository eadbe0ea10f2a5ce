"""Records as Server-Sent Events: what comes, as it comes, until the client goes.

Events are `record`, `gap`, `progress` and `error`; an id is the cursor behind what was sent, from which a client that
lost its connection goes on (Last-Event-ID). It comes at the start, with the last event of a group, and with the comment
every ten seconds that shows that the stream is alive.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
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
from tailrace_gateway.rest.reading.resources import gap_of, record_of
from tailrace_gateway.rest.scope import ClusterScope

STREAM_MS_MAX: Final = 600_000  # then the client connects again, and its user is asked for anew
HEARTBEAT_MS: Final = 10_000
_HEARTBEAT: Final = b": heartbeat\n"
_RETRY: Final = b"retry: 1000\n"


class EventStream(Response):
    """The answer; `deadline` is that of the request, which a stream has not."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        places: ReadingPlaces,
        place: AbstractContextManager[None],
        deadline: asyncio.Timeout | None,
    ) -> None:
        self._events = events
        self._places = places
        self._place = place
        self._deadline = deadline
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One stream; it takes a place, and ends with the client, the server or its time."""
        with self._place:
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
        yield _RETRY + _id(reading) + b"\n" + _gaps(reading)
        began_ms = scope.clock.monotonic_ms()
        try:
            while scope.clock.monotonic_ms() - began_ms < STREAM_MS_MAX:
                found = await reading.window.read(bounds, HEARTBEAT_MS)
                if gaps := _gaps(reading):
                    yield gaps
                if found:
                    yield await scope.backend.run_reading(partial(_group, wish, reading, found))
                else:
                    yield _HEARTBEAT + _id(reading) + b"\n"
                if wish.filter is not None:
                    yield _progress(reading)
        except Exception as wrong:  # noqa: BLE001 — the status is sent
            yield _event("error", body_of(as_rest_error(wrong)))


def _group(wish: ReadingWish, reading: Reading, found: list[FoundRecord]) -> bytes:
    rows = [_event("record", record_of(wish.topic, one, wish.encodings)) for one in found]
    rows[-1] = _id(reading) + rows[-1]
    return b"".join(rows)


def _id(reading: Reading) -> bytes:
    return f"id: {written(reading.window.positions)}\n".encode()


def _gaps(reading: Reading) -> bytes:
    """The gaps that were not told yet."""
    told = b"".join(_event("gap", gap_of(gap)) for gap in reading.gaps)
    reading.gaps.clear()
    return told


def _progress(reading: Reading) -> bytes:
    """Where a stream with a filter stands, also where it finds nothing."""
    window = reading.window
    scanned = {"scanned_records": window.scanned_records, "scanned_bytes": window.scanned_bytes}
    state = {"cursor": written(window.positions), **scanned, **filter_state(reading)}
    return _id(reading) + _event("progress", state)


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()

"""An HTTP connection with deadlines. uvicorn's own has one for a connection between requests alone.

A client owes the head of a request, then its body, then the reading of the answer; each has its time, and a connection
that is over it is ended. An answer that is given before the body was whole is the last of its connection: the rest of
the body is not read, and the client has a moment to read the answer before it is cut off.
"""

from __future__ import annotations

import asyncio
import json
from enum import Enum
from http import HTTPStatus
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tailrace.clock import Cancellable, Clock
from tailrace.runtime.http_connections import HttpConnections
from tailrace_gateway.rest.limits import TOO_MANY


class Phase(Enum):
    """What a connection waits for."""

    HEAD = "the head of a request"
    NEXT_REQUEST = "another request"
    BODY = "the rest of a request"
    READER = "the client to read"
    LAST_READ = "the client to read the answer to what it has not sent to the end"
    ANSWER = "our answer"


DEADLINES_MS = {
    Phase.HEAD: 5_000,
    Phase.NEXT_REQUEST: 10_000,
    Phase.BODY: 35_000,  # a request that takes 30 s is answered first (limits.py)
    Phase.READER: 30_000,
    Phase.LAST_READ: 1_000,
}


class DeadlineProtocol(H11Protocol):
    """One connection to the REST API, of those that `places` keeps."""

    def __init__(self, *, clock: Clock, places: HttpConnections, principal: str | None = None, **options: Any) -> None:
        """principal: of the certificate that the client has shown."""
        super().__init__(**options)
        if principal is not None:
            self.app = _asked_by(principal, self.app)
        self._clock = clock
        self._places = places
        self._phase = Phase.ANSWER
        self._timer: Cancellable | None = None
        self._is_writing_paused = False
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self._places.admit(self, address, self._end):
            self._wait(Phase.HEAD)
            return
        self._is_refused = True
        transport.write(_no_room())
        self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.remove(self)
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self._phase is Phase.LAST_READ:
            return
        super().data_received(data)
        self._look(begun=True)

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no HTTP, in the shape of the API's refusals; none within another answer."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_last_answer(HTTPStatus.BAD_REQUEST, f"Bad Request: {msg}"))
        self.transport.close()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._end_soon()
            return
        super().on_response_complete()
        self._look(begun=False)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_writing_paused = True
        self._look(begun=False)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_writing_paused = False
        self._look(begun=False)

    def _look(self, begun: bool) -> None:
        """Finds what is waited for now; `begun` says that something of what is to come may be here."""
        if self._phase is Phase.LAST_READ:
            return
        if self._is_writing_paused or self.transport.is_closing():
            self._wait(Phase.READER)
        elif self.conn.their_state is h11.IDLE:
            self._wait(Phase.HEAD if begun or self._phase is Phase.HEAD else Phase.NEXT_REQUEST)
        elif self.conn.their_state is h11.SEND_BODY:
            self._wait(Phase.BODY)
        else:
            self._cancel()
            self._phase = Phase.ANSWER
            self._places.answering(self)

    def _wait(self, phase: Phase) -> None:
        """Goes on with a phase, or begins it and its deadline."""
        if phase is self._phase:
            return
        self._cancel()
        self._phase = phase
        self._places.idle(self, self._end)
        self._timer = self._clock.call_later(DEADLINES_MS[phase], self._end)

    def _end_soon(self) -> None:
        """Says that nothing more comes, reads nothing more, and ends."""
        self._wait(Phase.LAST_READ)
        self.transport.pause_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _end(self) -> None:
        self.transport.abort()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _asked_by(principal: str, app: ASGIApp) -> ASGIApp:
    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        scope["principal"] = principal
        await app(scope, receive, send)

    return named


def _no_room() -> bytes:
    return _last_answer(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY)


def _last_answer(status: HTTPStatus, text: str) -> bytes:
    body = json.dumps({"error_code": int(status), "message": text}).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body

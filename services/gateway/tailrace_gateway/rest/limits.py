"""Bounds on HTTP requests: bytes and JSON of a body, the time that one may take, how many an address has.

The last counts those, too, whose client is gone: they go on until the cluster has answered.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tailrace_gateway.rest.errors import refuse

BODY_BYTES_MAX = 2 << 20
REQUEST_SECONDS_MAX = 30
REQUESTS_MAX_OF_ONE_ADDRESS = 64
REQUESTS_MAX = 256  # with requests whose clients are gone
TOO_MANY = "Too many requests of this address, or of all, are being answered."
TOKENS_MAX: Final = 30_000
_TOKEN = re.compile(rb'["{\[,]')
_IN_STRING = re.compile(rb'["\\]')
_QUOTE, _BACKSLASH = ord('"'), ord("\\")


class RestLimits:
    """Answers 413 to a body above the bound, announced or not, 415 to an encoded one, 503 to what takes too long."""

    def __init__(
        self, app: ASGIApp, body_bytes: int = BODY_BYTES_MAX, request_seconds: float = REQUEST_SECONDS_MAX
    ) -> None:
        self.app = app
        self.body_bytes = body_bytes
        self.request_seconds = request_seconds
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        if self._running[address] >= REQUESTS_MAX_OF_ONE_ADDRESS or self._running.total() >= REQUESTS_MAX:
            await refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY)
            return
        self._running[address] += 1
        try:
            await self._limited(scope, receive, send)
        finally:
            self._running[address] -= 1
            if not self._running[address]:
                del self._running[address]

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        left, began = self.body_bytes, False
        too_large = f"A body has {self.body_bytes} bytes at most."
        if _header(scope, b"content-encoding") not in (b"", b"identity"):
            unknown = "HTTP 415 Unsupported Media Type: bodies are taken without a Content-Encoding."
            await refuse(send, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, unknown, (b"accept-encoding", b"identity"))
            return
        announced = _header(scope, b"content-length")
        if announced.isdigit() and int(announced) > self.body_bytes:
            await refuse(send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large)
            return

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:  # an HTTPException is what FastAPI lets pass while it reads a body
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large)
            return message

        async def noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            async with asyncio.timeout(self.request_seconds) as deadline:
                scope["deadline"] = deadline  # a stream has another one
                await self.app(scope, counted, noted)
        except TimeoutError:
            if began:
                raise
            await refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, "The request took too long; it may still have acted.")


def _header(scope: Scope, name: bytes) -> bytes:
    """A header's value in lower case; empty without it."""
    return next((value.strip().lower() for key, value in scope["headers"] if key == name), b"")


class LimitedRoute(APIRoute):
    """A route that refuses a body with more than tokens_max tokens."""

    tokens_max = TOKENS_MAX

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()

        async def limited(request: Request) -> Response:
            return await handle(_JsonRequest(request, self.tokens_max))

        return limited


class _JsonRequest(Request):
    def __init__(self, request: Request, tokens_max: int) -> None:
        super().__init__(request.scope, request.receive)
        self._tokens_max = tokens_max

    async def json(self) -> object:
        if has_more_tokens(await self.body(), self._tokens_max):
            too_large = f"A body has {self._tokens_max} brackets, commas, quotation marks and escapes at most."
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large)
        return await super().json()


def has_more_tokens(body: bytes, most: int) -> bool:
    """Whether a JSON text has more opening brackets, commas, quotation marks and escapes; the rest is not looked at."""
    at, in_string = 0, False
    while most >= 0 and (found := (_IN_STRING if in_string else _TOKEN).search(body, at)):
        most -= 1
        at = found.end()
        if body[at - 1] == _QUOTE:
            in_string = not in_string
        elif body[at - 1] == _BACKSLASH:
            at += 1  # what it hides
    return most < 0

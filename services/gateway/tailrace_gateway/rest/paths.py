"""Paths and methods as routes see them: ids of any characters, the prefix /kafka, and HEAD as GET.

`/` is %2F in an id, which must not part the path. What servers hand on as the path is decoded, so that %2F and / are
one there. Here the path is decoded but for %2F and %25; routes are found by that, and what a route takes for an id is
decoded then.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final
from urllib.parse import quote, unquote

from fastapi import FastAPI
from starlette.convertors import Convertor
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALIAS: Final = "/kafka"
"""The prefix of /v3 in Confluent Cloud and its Terraform provider; links of the answer have it too."""
_KEPT = re.compile(r"(%2[Ff5])")


def routable(raw_path: bytes) -> str:
    """A path whose slashes are those that part it."""
    parts = _KEPT.split(raw_path.decode("latin-1"))
    return "".join(part if at % 2 else unquote(part) for at, part in enumerate(parts))


class Id(Convertor[str]):
    """One id of a routable path."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value)

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


class Paths:
    """ASGI middleware that shows routes the routable path, without the alias, and GET for HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        seen = {**scope, "path": routable(scope["raw_path"])}
        if seen["path"].startswith(f"{ALIAS}/v3/"):
            seen["root_path"] = ALIAS  # as of an app that is mounted there
        if scope["method"] == "HEAD":
            seen["method"] = "GET"
            head = _Head(receive, send)
            receive, send = head.receive, head.send
        await self._app(seen, receive, send)


class _Head:
    """The answer to HEAD: that to GET up to its body. An app that has more of a body sees a client that is gone."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._ended = asyncio.Event()

    async def send(self, message: Message) -> None:
        """Sends the head, with the length of a body that is known as a whole."""
        if self._ended.is_set():
            return
        if message["type"] == "http.response.body":
            self._ended.set()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def receive(self) -> Message:
        """What the client sends, until it has its answer."""
        coming, ended = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({coming, ended}, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else {"type": "http.disconnect"}
        finally:
            coming.cancel()
            ended.cancel()


def install(app: FastAPI) -> None:
    """Makes all routes of the app, which it has already, take ids of any characters."""
    for route in app.routes:
        if isinstance(route, Route):
            route.param_convertors = dict.fromkeys(route.param_convertors, Id())
    app.add_middleware(Paths)

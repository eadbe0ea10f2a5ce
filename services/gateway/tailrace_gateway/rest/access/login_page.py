"""The login page and sign-out: a form without a script, which need no login; so does their style sheet."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from http import HTTPStatus
from importlib.resources import files
from string import Template
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from tailrace.clock import Clock
from tailrace_gateway.rest.access import cookies
from tailrace_gateway.rest.access.cookies import Header
from tailrace_gateway.rest.access.rest_access import Login
from tailrace_gateway.rest.access.sessions import ID_BYTES, BrowserSession
from tailrace_gateway.rest.errors import refuse

LOGIN: Final = "/login"
_FORM_BYTES_MAX: Final = 8 << 10
_FIELDS_MAX: Final = 8
_OWN_PATH: Final = re.compile(r"/(?![/\\])[!-~]*")  # "//host" is another one's
_REFUSED: Final = "The user or the password is not right."
_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)


class LoginPage:
    """Of one admin port."""

    def __init__(self, login: Login, clock: Clock) -> None:
        self._login = login
        self._clock = clock
        folder = files("tailrace_gateway.rest").joinpath("static")
        self._form = Template(folder.joinpath("login.html").read_text())
        self._signed_in = Template(folder.joinpath("signed-in.html").read_text())

    def now(self) -> int:
        """Seconds of wall time."""
        return int(self._clock.wall_ms() // 1000)

    def session_of(self, scope: Scope) -> BrowserSession | None:
        """The session that a request comes with, if it has not ended."""
        token = cookies.session_token(scope)
        return None if token is None else self._login.sessions.find(token, self.now())

    def cookies_of(self, session: BrowserSession, scope: Scope) -> list[Header]:
        """The cookies of a session that is used now; none where its user is gone meanwhile."""
        token = self._login.sessions.token(replace(session, used=self.now()))
        return [] if token is None else cookies.set_cookies(scope, token, self._login.sessions.csrf_token(session))

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answers what is asked of these two paths; False for any other one."""
        match scope["raw_path"].decode("latin-1"), scope["method"]:
            case "/login", "GET" | "HEAD":
                await self._show(scope, send)
            case "/login", "POST":
                await self._log_in(scope, receive, send)
            case "/logout", "POST":
                await cookies.redirect(send, LOGIN, *cookies.delete_cookies(scope))
            case ("/login" | "/logout") as path, _:
                methods = b"GET, HEAD, POST" if path == LOGIN else b"POST"
                await refuse(send, HTTPStatus.METHOD_NOT_ALLOWED, "HTTP 405 Method Not Allowed", (b"allow", methods))
            case _:
                return False
        return True

    async def _show(self, scope: Scope, send: Send) -> None:
        session = self.session_of(scope)
        if session is not None:
            await self._page(scope, send, HTTPStatus.OK, self._signed_in, user=session.user)
            return
        query = _fields(scope["query_string"]) or {}
        await self._page(scope, send, HTTPStatus.OK, self._form, problem="", next=_own(query.get("next")))

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        fields = _fields(await _body(receive))
        if fields is None:
            await refuse(send, HTTPStatus.BAD_REQUEST, "A login is a form with a user and a password.")
            return
        user, target = fields.get("user", ""), _own(fields.get("next"))
        if await self._login.is_right(cookies.client_of(scope), user, fields.get("password", ""), self._clock):
            now = self.now()
            session = BrowserSession(user, now, now, secrets.token_bytes(ID_BYTES))
            await cookies.redirect(send, target, *self.cookies_of(session, scope))
        else:
            await self._page(scope, send, HTTPStatus.UNAUTHORIZED, self._form, problem=_REFUSED, next=target)

    async def _page(self, scope: Scope, send: Send, status: HTTPStatus, text: Template, **words: str) -> None:
        body = text.substitute({name: escape(word) for name, word in words.items()}).encode()
        headers = [*_HEADERS, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _own(target: str | None) -> str:
    """Where a login leads: a path of this port, the console without one."""
    return target if target and _OWN_PATH.fullmatch(target) else "/"


def _fields(form: bytes | None) -> Mapping[str, str] | None:
    """The fields of a form; None for what is none."""
    if form is None:
        return None
    try:
        return dict(parse_qsl(form.decode("ascii"), max_num_fields=_FIELDS_MAX, errors="strict"))
    except ValueError:
        return None


async def _body(receive: Receive) -> bytes | None:
    """The body of a form; None for one that is too large or does not come to its end."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or len(body) > _FORM_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return bytes(body)

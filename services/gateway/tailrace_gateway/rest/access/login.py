"""The login before everything that the admin port serves: a password, a bearer token, or the session of a browser.

A password comes by HTTP Basic (RFC 7617). A token (RFC 6750) is taken where Kafka clients log in by OAUTHBEARER.

A page is sent to the login page, and what a page asks for gets a 401 that opens no dialog of the browser. (Over plain
HTTP off the loopback a browser is known by its session's cookie alone, also an old one.)

A change by a session says the session's CSRF token in a header, too: the cookie alone is not enough.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from hmac import compare_digest
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tailrace.clock import Clock
from tailrace.net.identity import principal_of
from tailrace_gateway.rest.access import cookies
from tailrace_gateway.rest.access.login_page import LOGIN, LoginPage
from tailrace_gateway.rest.access.rest_access import Login
from tailrace_gateway.rest.access.sessions import BrowserSession
from tailrace_gateway.rest.errors import refuse

_BASIC: Final = (b"www-authenticate", b'Basic realm="Tailrace", charset="UTF-8"')
_BEARER: Final = (b"www-authenticate", b'Bearer realm="Tailrace"')
_TOKEN: Final = re.compile(rb"[-_.a-zA-Z0-9]+")
_CSRF_HEADER: Final = cookies.CSRF.lower().encode()
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN: Final = frozenset({b"/static/page.css"})  # of the login page
_NO_LOGIN: Final = "This port asks for a user and a password (HTTP Basic), or for a bearer token where it takes them."
_REFUSED: Final = "The user or the password, or the token, is not right."
_NO_CSRF: Final = f"A change by a browser's session needs the header {cookies.CSRF} with the cookie of that name."


class LoginRequired:
    """ASGI middleware that answers 401, or says who asks in scope["principal"]."""

    def __init__(self, app: ASGIApp, login: Login, clock: Clock) -> None:
        self._app = app
        self._login = login
        self._clock = clock
        self._page = LoginPage(login, clock)
        self._challenges = (_BASIC,) if login.verifier is None else (_BASIC, _BEARER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["raw_path"] in _OPEN:
            await self._app(scope, receive, send)
            return
        if await self._page.answer(scope, receive, send):
            return
        headers = dict(scope["headers"])
        if b"authorization" in headers:
            await self._by_header(scope, receive, send)
            return
        session = self._page.session_of(scope)
        if session is None:
            await self._ask(scope, send, headers)
        elif scope["method"] in _READS or self._has_csrf_token(session, headers):
            scope["principal"] = principal_of(session.user)
            await self._app(scope, receive, self._renewing(session, scope, send))
        else:
            await refuse(send, HTTPStatus.FORBIDDEN, _NO_CSRF)

    async def _by_header(self, scope: Scope, receive: Receive, send: Send) -> None:
        scheme, text = _authorization(scope)
        client = cookies.client_of(scope)
        user = None
        if scheme == b"basic" and (given := _password(text)) is not None:
            user = given[0] if await self._login.is_right(client, *given, self._clock) else None
        elif scheme == b"bearer" and self._login.verifier is not None and _TOKEN.fullmatch(text):
            user = await self._login.user_of(client, text.decode(), self._clock)
        else:
            await refuse(send, HTTPStatus.UNAUTHORIZED, _NO_LOGIN, *self._challenges)
            return
        if user is None:
            await refuse(send, HTTPStatus.UNAUTHORIZED, _REFUSED, *self._challenges)
            return
        scope["principal"] = principal_of(user)
        await self._app(scope, receive, send)

    async def _ask(self, scope: Scope, send: Send, headers: Mapping[bytes, bytes]) -> None:
        """Shows a browser the login page, tells a page of ours that it needs one, and asks a program for a password."""
        if scope["method"] in _READS and b"text/html" in headers.get(b"accept", b""):
            target = scope["raw_path"].decode("latin-1")
            if query := scope["query_string"]:
                target += "?" + query.decode("latin-1")
            place = LOGIN if target == "/" else f"{LOGIN}?next={quote(target, safe='')}"
            await cookies.redirect(send, place)
        elif b"sec-fetch-mode" in headers or cookies.session_token(scope) is not None:
            await refuse(send, HTTPStatus.UNAUTHORIZED, _NO_LOGIN)
        else:
            await refuse(send, HTTPStatus.UNAUTHORIZED, _NO_LOGIN, *self._challenges)

    def _has_csrf_token(self, session: BrowserSession, headers: Mapping[bytes, bytes]) -> bool:
        return compare_digest(headers.get(_CSRF_HEADER, b""), self._login.sessions.csrf_token(session).encode())

    def _renewing(self, session: BrowserSession, scope: Scope, send: Send) -> Send:
        """Sends the session's cookies along where their time of use is old."""
        if not session.is_due(self._page.now()):
            return send
        renewed = self._page.cookies_of(session, scope)

        async def send_with_cookies(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *renewed]}
            await send(message)

        return send_with_cookies


def _authorization(scope: Scope) -> tuple[bytes, bytes]:
    """The scheme in lower case and what follows it; nothing where there are two."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return b"", b""
    scheme, _, text = values[0].partition(b" ")
    return scheme.lower(), text.strip()


def _password(text: bytes) -> tuple[str, str] | None:
    """The user and the password of HTTP Basic."""
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None

"""HTTP Basic (RFC 7617) before everything that the admin port serves."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.clock import Clock
from tailrace.net.identity import principal_of
from tailrace_gateway.rest.access.rest_access import Login
from tailrace_gateway.rest.errors import refuse

CHALLENGE: Final = (b"www-authenticate", b'Basic realm="Tailrace", charset="UTF-8"')
_NO_LOGIN: Final = "This port asks for a user and a password (HTTP Basic)."
_REFUSED: Final = "The user or the password is not right."


class BasicLogin:
    """ASGI middleware that answers 401, or says who asks in scope["principal"]."""

    def __init__(self, app: ASGIApp, login: Login, clock: Clock) -> None:
        self._app = app
        self._login = login
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _given(scope)
        if given is None:
            await refuse(send, HTTPStatus.UNAUTHORIZED, _NO_LOGIN, CHALLENGE)
        elif await self._login.passwords.are_right(*given):
            scope["principal"] = principal_of(given[0])
            await self._app(scope, receive, send)
        else:
            self._login.on_failed(scope["client"][0] if scope.get("client") else "", given[0])
            await self._clock.sleep(self._login.failed_delay_ms)
            await refuse(send, HTTPStatus.UNAUTHORIZED, _REFUSED, CHALLENGE)


def _given(scope: Scope) -> tuple[str, str] | None:
    """The user and the password of a request; None without them, and for what is no Basic login."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, text = values[0].partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None

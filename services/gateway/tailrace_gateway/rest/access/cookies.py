"""The cookies of a browser's session: its token, which no script can read, and its CSRF token for the pages."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Scope, Send

from tailrace_gateway.rest.access.sessions import MAX_SECONDS

CSRF: Final = "X-Tailrace-CSRF"
_SESSION: Final = "tailrace-session"
Header: TypeAlias = tuple[bytes, bytes]


def client_of(scope: Scope) -> str:
    """The client's address."""
    return scope["client"][0] if scope.get("client") else ""


def session_token(scope: Scope) -> str | None:
    """The token of the session that a request comes with; None without one."""
    wanted = _session_name(scope)
    headers: Iterable[Header] = scope["headers"]
    for header, value in headers:
        for pair in value.decode("latin-1").split(";") if header == b"cookie" else ():
            name, _, token = pair.strip().partition("=")
            if name == wanted:
                return token
    return None


def set_cookies(scope: Scope, token: str, csrf_token: str, max_age: int = MAX_SECONDS) -> list[Header]:
    """Keeps a session in the browser; with TLS for this host alone, and never without it."""
    secure = "; Secure" if _is_encrypted(scope) else ""
    common = f"; Path=/; Max-Age={max_age}; SameSite=Strict{secure}"
    values = (f"{_session_name(scope)}={token}{common}; HttpOnly", f"{CSRF}={csrf_token}{common}")
    return [(b"set-cookie", value.encode()) for value in values]


def delete_cookies(scope: Scope) -> list[Header]:
    """Ends it there."""
    return set_cookies(scope, "", "", 0)


async def redirect(send: Send, place: str, *headers: Header) -> None:
    """Sends a browser to another page of this port."""
    given = [(b"location", place.encode()), (b"content-length", b"0"), (b"cache-control", b"no-store"), *headers]
    await send({"type": "http.response.start", "status": int(HTTPStatus.SEE_OTHER), "headers": given})
    await send({"type": "http.response.body", "body": b""})


def _session_name(scope: Scope) -> str:
    return f"__Host-{_SESSION}" if _is_encrypted(scope) else _SESSION


def _is_encrypted(scope: Scope) -> bool:
    return bool(scope["scheme"] == "https")

"""Which Host and Origin a request may have, so that a page from elsewhere cannot act in a browser's name.

A browser can be made to send a stranger's host name to an address of this machine (DNS rebinding); it says so in Host.
A page of another origin says so in Origin. Programs send no Origin, and reach the port by an address or a known name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace_gateway.rest.cross_origin import ANY, NO_OTHERS, CrossOrigin
from tailrace_gateway.rest.errors import refuse

_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:/@?#\s]+)(:\d{1,5})?")
_LOCAL = "localhost"


def host_of(authority: str) -> str | None:
    """The host of host[:port] in lower case, an IPv6 address without brackets; None for what is none."""
    found = _AUTHORITY.fullmatch(authority.lower())
    return None if found is None else found["host"].strip("[]").removesuffix(".")


def is_address(host: str) -> bool:
    """Whether it is an IP address: no stranger's name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class HostRules:
    """`own` are names of this machine, `allowed` those of admin.allowed.hosts, which may also be an Origin's."""

    def __init__(
        self, own: Iterable[str] = (), allowed: Iterable[str] = (), cross_origin: CrossOrigin = NO_OTHERS
    ) -> None:
        self.cross_origin = cross_origin
        self._allowed = {name.lower().removesuffix(".") for name in allowed}
        self._own = {name.lower().removesuffix(".") for name in own} | self._allowed

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Why a request with these headers is not served; None for one that is."""
        if host is None or (name := host_of(host)) is None:
            return "The request says no host in its Host header."
        if not self._is_known(name):
            return f"The host {name} is not this gateway's. Names that it may be called by go to admin.allowed.hosts."
        if origin is None:
            return None
        authority = origin.lower().partition("://")[2]
        if authority == host.lower() or host_of(authority) in self._allowed or self.cross_origin.allows(origin):
            return None
        return (
            f"The origin {origin} is not this gateway. Hosts that may be origins go to admin.allowed.hosts, and "
            "origins whose pages may read answers to access.control.allow.origin."
        )

    def _is_known(self, name: str) -> bool:
        is_local = name == _LOCAL or name.endswith("." + _LOCAL)
        return is_local or name in self._own or ANY in self._allowed or is_address(name)


class HostCheck:
    """ASGI middleware that answers 403 where the rules refuse, before anything else looks at the request."""

    def __init__(self, app: ASGIApp, rules: HostRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"host", b"origin")}
        if why := self._rules.refusal(headers.get(b"host"), headers.get(b"origin")):
            await refuse(send, HTTPStatus.FORBIDDEN, why)
        else:
            await self._app(scope, receive, send)

"""Hosts and URLs among the config values: what can be one, before anything is bound or connected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

WILDCARDS = ("0.0.0.0", "::")
_NAME_MAX = 253
# RFC 1123, and the underscore that container networks have in names.
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_DATABASE = re.compile(
    r"(sqlite|postgresql)(\+[a-z0-9]+)?://([^/?#]*@)?([^/?#:@\[\]]*|\[[^/?#@\[\]]*\])(:[0-9]{1,5})?([/?].*)?", re.DOTALL
)

_REDIS = re.compile(
    r"(rediss?://([^/?#]*@)?([^/?#:@\[\]]*|\[[^/?#@\[\]]*\])(:[0-9]{1,5})?([/?].*)?|unix://([^/?#]*@)?/.*)", re.DOTALL
)
# As SQLAlchemy and redis-py read them: a password may hold a slash, and may stand among the parameters.
_PASSWORD = re.compile(r"//[^:/@]*:[^@]+@|[?&](?!passfile=)[^=&]*pass[^=&]*=[^&]", re.IGNORECASE)


def url_has_password(text: str) -> bool:
    """Whether a URL holds a password."""
    return _PASSWORD.search(text) is not None


def is_host(text: str) -> bool:
    """Whether it is an IP address, without brackets, or may be a host's name."""
    try:
        ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        # All digits in the last one: an address that somebody mistyped.
        return len(text) <= _NAME_MAX and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdecimal()
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a socket that is bound to the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def hosts_meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether sockets of both may share a port: a wildcard is every address of its family, a name any IPv4 one."""
    of_others = [_bound(host) for host in others]
    return any(
        one.version == other.version and (one == other or one.is_unspecified or other.is_unspecified)
        for one in map(_bound, some)
        for other in of_others
    )


def _bound(host: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(host)
    except ValueError:
        return IPv4Address(0)


@dataclass(frozen=True, slots=True)
class Host:
    """One host; `reachable`: one that a client can connect to."""

    reachable: bool = False

    def refusal(self, value: object) -> str | None:
        if value is None:
            return None
        assert isinstance(value, str)
        if not is_host(value):
            return f"{value!r} is not a host name or an IP address"
        return f"{value} is every address of this machine: clients need one" if self._is_wildcard(value) else None

    def _is_wildcard(self, value: str) -> bool:
        return self.reachable and value in WILDCARDS

    def __str__(self) -> str:
        return "a host name or an IP address" + (" other than 0.0.0.0 and ::" if self.reachable else "")


@dataclass(frozen=True, slots=True)
class HostList:
    """One host or more."""

    def refusal(self, value: object) -> str | None:
        assert isinstance(value, tuple)
        wrong = next((host for host in value if not is_host(host)), None)
        if wrong is not None:
            return f"{wrong!r} is not a host name or an IP address"
        return None if value else "Configuration must not be empty."

    def __str__(self) -> str:
        return "host names or IP addresses, one at least"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A URL of SQLAlchemy for a database that keeps metadata."""

    def refusal(self, value: object) -> str | None:
        if value is None:
            return None
        assert isinstance(value, str)
        return (
            None
            if _DATABASE.fullmatch(value)
            else "it is no sqlite:///PATH and no postgresql://USER@HOST:PORT/DATABASE"
        )

    def __str__(self) -> str:
        return "sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE"


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A URL of redis-py."""

    def refusal(self, value: object) -> str | None:
        if value is None:
            return None
        assert isinstance(value, str)
        return None if _REDIS.fullmatch(value) else f"it is none of {self}"

    def __str__(self) -> str:
        return "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH"

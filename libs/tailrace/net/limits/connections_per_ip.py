"""max.connections.per.ip and its overrides, as Kafka's ConnectionQuotas has them.

A connection above the limit of its address is closed at once. Those that have yet to finish their handshake count, too.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

from tailrace.config import Config, ConfigError
from tailrace.quota.entity import canonical_ip

_UNLIMITED: Final = 2_147_483_647
_OVERRIDES: Final = "max.connections.per.ip.overrides"


class HalfOpen(Protocol):
    """Connections that are not counted yet."""

    def count_of(self, host: str) -> int:
        """How many of an address there are."""


class ConnectionsPerIp:
    """The open connections of a process by their addresses."""

    def __init__(self, most: int = _UNLIMITED, overrides: Mapping[str, int] | None = None) -> None:
        self.half_open: list[HalfOpen] = []
        self.refused_count = 0
        self._most = most
        self._overrides = overrides or {}
        self._open = Counter[str]()
        self._hosts: dict[object, str] = {}

    def opened(self, connection: object, host: str) -> None:
        """Counts a connection in."""
        known = canonical_ip(host) or host
        self._hosts[connection] = known
        self._open[known] += 1

    def closed(self, connection: object) -> None:
        """Counts it out; nothing for one that was not counted in."""
        host = self._hosts.pop(connection, None)
        if host is not None:
            self._open[host] -= 1
            if not self._open[host]:
                del self._open[host]

    def refused(self, host: str) -> bool:
        """Whether the address has as many as it may; then one more connection is refused."""
        known = canonical_ip(host) or host
        most = self._overrides.get(known, self._most)
        if most == _UNLIMITED or self._open[known] + sum(some.count_of(host) for some in self.half_open) < most:
            return False
        self.refused_count += 1
        return True


def connections_per_ip(config: Config) -> ConnectionsPerIp:
    """By the keys max.connections.per.ip. Raises ConfigError."""
    overrides = dict(_override(pair) for pair in config.max_connections_per_ip_overrides.split(",") if pair.strip())
    if config.max_connections_per_ip == 0 and not overrides:
        raise ConfigError(f"max.connections.per.ip can be set to zero only if {_OVERRIDES} property is set.")
    return ConnectionsPerIp(config.max_connections_per_ip, overrides)


def _override(pair: str) -> tuple[str, int]:
    """An address, or the one that a host name stands for, and its limit."""
    host, colon, count = (part.strip() for part in pair.rpartition(":"))
    if not (host and colon and count.isascii() and count.isdecimal() and int(count) <= _UNLIMITED):
        raise ConfigError(f"{_OVERRIDES}: {pair.strip()} is not HOST:COUNT.")
    known = canonical_ip(host)
    if known is not None:
        return known, int(count)
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]), int(count)
    except (OSError, UnicodeError):
        raise ConfigError(f"{_OVERRIDES} contains invalid addresses: {host}.") from None

"""File descriptors: some are kept in reserve, and idle connections of the greediest address make room for others."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Collection
from typing import Final, Protocol

from tailrace.net.identity import Identity

_RESERVE: Final = 128  # for connections to other services, and files
_CLOSED_AT_ONCE: Final = 32  # to look at all connections takes long where they are thousands


class Identified(Protocol):
    """A client's session."""

    identity: Identity


class Closable(Protocol):
    """A client's connection."""

    @property
    def session(self) -> Identified: ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed, unsent or begun."""

    def close(self) -> None: ...


def most_descriptor() -> int:
    """The highest descriptor that a client's socket may have: the system gives the lowest that is free."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft - 1 - min(_RESERVE, soft // 8)


def make_room(connections: Collection[Closable]) -> int:
    """Closes idle connections of the address that has the most connections; returns how many."""
    hosts = Counter(connection.session.identity.client_host for connection in connections)
    if not hosts:
        return 0
    ((host, count),) = hosts.most_common(1)
    idle = [one for one in connections if one.session.identity.client_host == host and one.is_idle]
    closed = idle[: min(_CLOSED_AT_ONCE, count - 1)]
    for connection in closed:
        connection.close()
    return len(closed)

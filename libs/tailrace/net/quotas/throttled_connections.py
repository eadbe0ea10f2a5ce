"""New connections of an address that has had too many (connection_creation_rate, KIP-612), or has too many open.

As in Apache Kafka a connection above a rate is accepted, not read, and closed after a while of at most a second: a
client that is refused at once comes back at once. One above max.connections.per.ip is closed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tailrace.clock import Cancellable, Clock
from tailrace.net.limits.connections_per_ip import ConnectionsPerIp

HELD_MS = 1000.0


class Closes(Protocol):
    """A socket, or the transport that has one."""

    def close(self) -> None: ...


class ThrottledConnections:
    """Decides over each new connection, and holds those that are refused."""

    def __init__(self, admit: Callable[[str, int], int], clock: Clock, per_ip: ConnectionsPerIp | None = None) -> None:
        """per_ip: of the open connections, counted by what opens them."""
        self.refused_count = 0
        self.per_ip = ConnectionsPerIp() if per_ip is None else per_ip
        self._admit = admit
        self._clock = clock
        self._held: dict[Closes, Cancellable] = {}

    def __len__(self) -> int:
        return len(self._held)

    def refused(self, sock: Closes, client_host: str, broker_id: int, room: int) -> bool:
        """Whether the connection is refused; then it is closed here, at once where there is no room to hold it."""
        throttle_time_ms = self._admit(client_host, broker_id)
        if not throttle_time_ms:
            if not self.per_ip.refused(client_host):
                return False
            sock.close()
            return True
        self.refused_count += 1
        if len(self._held) >= room:
            sock.close()
        else:
            self._held[sock] = self._clock.call_later(min(HELD_MS, throttle_time_ms), lambda: self._free(sock))
        return True

    def _free(self, sock: Closes) -> None:
        del self._held[sock]
        sock.close()

    def close(self) -> None:
        """Closes what is held."""
        for sock, timer in self._held.items():
            timer.cancel()
            sock.close()
        self._held.clear()


def unlimited(clock: Clock) -> ThrottledConnections:
    """Refuses nobody."""
    return ThrottledConnections(lambda ip, broker_id: 0, clock)

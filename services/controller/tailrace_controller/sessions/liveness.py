"""Sessions of brokers and services: when each was heard last, over which connection, and who is overdue. Pure."""

from collections.abc import Iterable
from typing import TypeAlias

SessionKey: TypeAlias = tuple[str, int, int]  # role ("broker" or a service's), id, epoch


class Sessions:
    """One deadline per registered broker and service, in milliseconds of a monotonic clock."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._deadlines: dict[SessionKey, float] = {}
        self._connections: dict[SessionKey, object] = {}

    def keep(self, keys: Iterable[SessionKey], now_ms: float) -> None:
        """Begins sessions for keys that have none and ends those of keys that are not named."""
        wanted = set(keys)
        for key in self._deadlines.keys() - wanted:
            self.end(key)
        for key in wanted - self._deadlines.keys():
            self._deadlines[key] = now_ms + self.timeout_ms

    def touch(self, key: SessionKey, connection: object, now_ms: float) -> None:
        """A registration or heartbeat came over this connection; sessions of other epochs are over."""
        for other in [known for known in self._deadlines if known[:2] == key[:2] and known != key]:
            self.end(other)
        self._deadlines[key] = now_ms + self.timeout_ms
        self._connections[key] = connection

    def prolong(self, now_ms: float) -> None:
        """Gives every session a whole timeout again: we could not hear anybody for a while."""
        for key in self._deadlines:
            self._deadlines[key] = now_ms + self.timeout_ms

    def end(self, key: SessionKey) -> None:
        """Forgets a session."""
        self._deadlines.pop(key, None)
        self._connections.pop(key, None)

    def on_connection_lost(self, connection: object) -> list[SessionKey]:
        """Returns the sessions whose newest heartbeat came over a connection that broke: suspicions to check."""
        lost = [key for key, mine in self._connections.items() if mine is connection]
        for key in lost:
            del self._connections[key]
        return lost

    def is_connected(self, role: str, service_id: int, besides: object) -> bool:
        """Says whether this broker or service heartbeats over another open connection than the one named."""
        return any(key[:2] == (role, service_id) and mine is not besides for key, mine in self._connections.items())

    def unconnected(self) -> list[SessionKey]:
        """Returns sessions that nobody has spoken for since they began or since their connection broke."""
        return [key for key in self._deadlines if key not in self._connections]

    def overdue(self, now_ms: float) -> list[SessionKey]:
        """Returns the sessions whose deadline has passed."""
        return [key for key, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]

    def all_silent(self, now_ms: float) -> bool:
        """Says whether there are several sessions and not one was heard for most of its timeout: is it us?"""
        recent_ms = now_ms + self.timeout_ms / 3
        return len(self._deadlines) > 1 and all(deadline_ms <= recent_ms for deadline_ms in self._deadlines.values())

    def next_deadline_ms(self) -> float | None:
        """Returns the earliest deadline, None without sessions."""
        return min(self._deadlines.values(), default=None)

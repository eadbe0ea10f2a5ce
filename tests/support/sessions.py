"""Sessions of clients without a connection."""

from __future__ import annotations

from tailrace.net.identity import Identity
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.quotas.meter import MeterOf, Unmetered
from tailrace.net.session import LOOP_CLOCK, ClientSession, SessionClock


class Holder:
    """A connection that remembers what its session asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def throttled(self) -> None:
        self.asked.append("throttled")

    def unmuted(self) -> None:
        self.asked.append("unmuted")

    def authentication_changed(self) -> None:
        self.asked.append("authentication changed")

    def finish(self) -> None:
        self.asked.append("finish")

    def memory_granted(self) -> None:
        self.asked.append("memory granted")

    def reclaim_memory(self) -> None:
        self.asked.append("reclaim memory")

    def torn_bytes(self) -> int:
        return -1

    def give_way(self, why: str) -> None:
        self.asked.append(why)


def session_of(
    identity: Identity | None = None,
    meter_of: MeterOf = lambda client_id: Unmetered(),
    clock: SessionClock = LOOP_CLOCK,
) -> ClientSession:
    """A session of such a client."""
    return ClientSession(Holder(), RoleMemory(), identity, meter_of, clock)

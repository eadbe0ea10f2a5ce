"""What the relay asks of quotas: one meter per client id, charged with bytes (KIP-124, KIP-219)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from tailrace.net.identity import ANONYMOUS_USER
from tailrace.quota.leased_bucket import UNLIMITED, Room
from tailrace.quota.pending_throttle import PendingThrottle, no_pending_throttle


class Meter(Protocol):
    """A client's use. The flags let the relay skip the calls where no quota is set."""

    produce_limited: bool
    fetch_limited: bool
    request_limited: bool

    @property
    def produce_room(self) -> Room:
        """Of which a small Produce may be taken instead of calling `produced`."""
        ...

    def produced(self, size_bytes: int) -> int:
        """Charges a Produce request; returns throttle_time_ms."""
        ...

    def fetched(self, size_bytes: int) -> int:
        """Charges a Fetch answer; returns throttle_time_ms."""
        ...

    def work_ms(self) -> float:
        """The processor's time for this thread, whose difference is what `worked` is charged."""
        ...

    def worked(self, time_ms: float) -> int:
        """Charges what the client took of the event loop (request_percentage); returns throttle_time_ms."""
        ...

    def indebted(self) -> int:
        """The throttle_time_ms of what the client's other connections owe, those that are gone included."""
        ...

    def pending_throttle(self) -> PendingThrottle:
        """What the charges since the last call took above the rates: the connection waits until it is earned."""
        ...

    def fetch_max_bytes(self) -> int:
        """The most one Fetch may bring without stalling its consumer: what the quota window holds."""
        ...


class Unmetered:
    """No quota at all."""

    produce_limited = False
    fetch_limited = False
    request_limited = False
    produce_room = UNLIMITED

    def produced(self, size_bytes: int) -> int:
        return 0

    def fetched(self, size_bytes: int) -> int:
        return 0

    def work_ms(self) -> float:
        return 0.0

    def worked(self, time_ms: float) -> int:
        return 0

    def indebted(self) -> int:
        return 0

    def pending_throttle(self) -> PendingThrottle:
        return no_pending_throttle()

    def fetch_max_bytes(self) -> int:
        return 2**31 - 1


# From the client id's bytes as they stand in the header (empty for none) to its meter.
MeterOf: TypeAlias = Callable[[bytes], Meter]


class MeterAt(Protocol):
    """The same for a client of one broker, and of a user (Identity.principal)."""

    def __call__(self, broker_id: int, client_id: bytes, user: str = ANONYMOUS_USER) -> Meter: ...


UNMETERED = Unmetered()


def unmetered(broker_id: int, client_id: bytes, user: str = ANONYMOUS_USER) -> Meter:
    """Every client without a quota."""
    return UNMETERED

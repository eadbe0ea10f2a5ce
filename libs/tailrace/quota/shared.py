"""The bookings of leases when several quota services share them: read, decided by `leases.book`, written if unchanged.

A service remembers what it wrote or read last, so that a round of leases is one exchange with the store as long as no
other service wrote. Each text begins with a version that nobody wrote before: a store that lost its last second (a
replica that took over) never shows a known version with another content. What is newer, the remembered or the stored,
is gone on with, so a store that lost something or everything learns it again from the services.

Pure: times are the store's own clock, which is the same for all services.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leases import HELD_LEASES, Booking, Demand, Entry, Gateway, Grant, Holders, book, with_one

VERSION_CHARS = 16
ABSENT = ""
_ROUNDS_MAX = 8


class ContendedError(Exception):
    """Others wrote each time between our reading and our writing."""


@dataclass(frozen=True, slots=True)
class Write:
    """Replaces an entry's text if its version is the expected one (ABSENT: if there is none)."""

    entry: Entry
    expected: str
    text: str


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """What the store says: its time, since when it keeps bookings, and for each write None, or the text that is there.

    Nothing is written when the service believes in another `since`: the store has begun again meanwhile.
    """

    now_ms: float
    since_ms: str
    present: Sequence[str | None]


class SharedLeases:
    """What one service knows of the shared bookings."""

    def __init__(self, lease_ms: float, max_entries: int, new_version: Callable[[], str]) -> None:
        self.lease_ms = lease_ms
        self.kept_ms = HELD_LEASES * lease_ms  # of an entry in the store, from its last write
        self.since_ms = ABSENT
        self._max_entries = max_entries
        self._new_version = new_version
        self._seen: dict[Entry, str] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def begin(self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, holders: Holders) -> Round:
        """A gateway's demands, to be decided and written."""
        return Round(self, gateway, demands, quotas, with_one(holders, gateway[0]))

    def seen(self, entry: Entry, now_ms: float) -> str:
        """The newest text that is known of an entry, ABSENT where it must have run out in the store."""
        text = self._seen.get(entry, ABSENT)
        booking = booking_of(text)
        return ABSENT if booking is None or booking.at_ms + self.kept_ms <= now_ms else text

    def remember(self, entry: Entry, text: str) -> None:
        """An entry's text, as it is in the store now."""
        self._seen.pop(entry, None)
        if text:
            if len(self._seen) >= self._max_entries:
                del self._seen[next(iter(self._seen))]
            self._seen[entry] = text

    def text_of(self, booking: Booking) -> str:
        """The booking under a new version."""
        return self._new_version() + json.dumps(booking.values(), separators=(",", ":"))


class Round:
    """One gateway's demands until all are written; `grants` are in their order then."""

    def __init__(
        self,
        leases: SharedLeases,
        gateway: Gateway,
        demands: Sequence[Demand],
        quotas: ClientQuotas,
        holders: Holders,
    ) -> None:
        self._leases = leases
        self._gateway = gateway
        self._quotas = quotas
        self._holders = holders
        self._open = list(enumerate(demands))
        self._grants: dict[int, Grant] = {}
        self._stored: dict[Entry, str] = {}  # what was there instead of what was expected
        self._writes: list[Write] = []
        self._rounds = 0

    @property
    def grants(self) -> list[Grant]:
        """The answer, once `take` said that all is written."""
        return [self._grants[at] for at in sorted(self._grants)]

    def writes(self, now_ms: float) -> list[Write]:
        """Decides what is not written yet."""
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise ContendedError
        limited = []
        self._writes = []
        for at, demand in self._open:
            entry = (demand.account, demand.kind)
            rate = self._quotas.of_account(*entry)
            if rate is None:
                self._grants[at] = Grant(*entry, limited=False, rate=0.0)
                continue
            limited.append((at, demand))
            self._writes.append(self._decide(at, demand, rate, now_ms))
        self._open = limited
        return self._writes

    def _decide(self, at: int, demand: Demand, rate: float, now_ms: float) -> Write:
        entry, leases = (demand.account, demand.kind), self._leases
        known = leases.seen(entry, now_ms)
        expected = self._stored.get(entry, known)
        booking = newer(booking_of(known), booking_of(expected))
        begun = leases.since_ms != ABSENT and float(leases.since_ms) + leases.lease_ms <= now_ms
        grace = booking is None and not begun
        booking = booking or Booking(now_ms)
        self._grants[at] = book(
            booking, self._gateway, demand, rate, self._holders, now_ms, leases.lease_ms, grace=grace
        )
        return Write(entry, expected[:VERSION_CHARS], leases.text_of(booking))

    def take(self, answer: StoreAnswer) -> bool:
        """Whether everything is written now; else ask for `writes` again."""
        self._leases.since_ms = answer.since_ms
        left = []
        for one, write, present in zip(self._open, self._writes, answer.present, strict=True):
            if present is None:
                self._leases.remember(write.entry, write.text)
            else:
                self._stored[write.entry] = present
                left.append(one)
        self._open = left
        return not left


def booking_of(text: str) -> Booking | None:
    """The booking that a text holds; None for none, and for what is not ours."""
    try:
        return Booking.of(json.loads(text[VERSION_CHARS:])) if text else None
    except (ValueError, TypeError, KeyError):
        return None


def newer(one: Booking | None, other: Booking | None) -> Booking | None:
    """The booking that was settled last."""
    if one is None or other is None:
        return one or other
    return one if one.at_ms > other.at_ms else other


class MemoryBookings:
    """The store's twin: what the script in Redis does, in a dictionary that can lose what it holds."""

    def __init__(self, now_ms: Callable[[], float], kept_ms: float) -> None:
        self.texts: dict[Entry, tuple[str, float]] = {}  # with when they run out
        self.since_ms = ABSENT
        self.exchanges = 0
        self._now_ms = now_ms
        self._kept_ms = kept_ms

    def exchange(self, since_ms: str, writes: Sequence[Write]) -> StoreAnswer:
        """One round trip."""
        self.exchanges += 1
        now_ms = self._now_ms()
        self.since_ms = self.since_ms or str(now_ms)
        return StoreAnswer(now_ms, self.since_ms, [self._write(one, since_ms, now_ms) for one in writes])

    def _write(self, write: Write, since_ms: str, now_ms: float) -> str | None:
        text, until_ms = self.texts.get(write.entry, (ABSENT, now_ms))
        present = text if until_ms > now_ms else ABSENT
        if since_ms != self.since_ms or present[:VERSION_CHARS] != write.expected:
            return present
        self.texts[write.entry] = (write.text, now_ms + self._kept_ms)
        return None

    def lose_all(self) -> None:
        """The store was started again, empty."""
        self.texts, self.since_ms = {}, ABSENT

"""What the quota service knows: who holds how much of which client's rate, and until when.

At every moment the leases of one client's rate add up to at most the rate plus FLOOR: a gateway is given more only when
the others' leases leave room for it, that is after they renewed at less or ran out. What was leased and not used comes
back with the next report and is given as credit to whoever is short, so that a shift of demand costs nothing in the
long run; at most CREDIT_MS of the rate is kept for that.

A gateway that cannot reach the service goes on at its last rate (`quota.unavailable=last`), so a lease that ran out is
not free at once: it stays booked for HELD_LEASES lease times, unless its gateway is known to be gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.split import split

FLOOR = 0.02
"""The part of a rate that newcomers may get above it, all together; the error bound's 2 %."""

CREDIT_MS = 400.0
HELD_LEASES = 4

Entry = tuple[Account, QuotaKind]
Gateway = tuple[int, str]  # (id, incarnation)


Holders: TypeAlias = Collection[int]  # ids of all that may have clients' sockets, between which a rate is split


def with_one(holders: Holders, holder_id: int) -> Holders:
    """With one that asks, whose registration may not have reached our image yet."""
    return holders if holder_id in holders else {*holders, holder_id}


@dataclass(frozen=True, slots=True)
class Demand:
    """What one gateway wants for one account, in the units of the kind. A rate of 0 gives the lease back.

    `used` was charged since the last report, `unused` of the lease ran over. `throttle_time_ms` was given to clients
    since then, and for `debt_ms` from now on they are above the rate.
    """

    account: Account
    kind: QuotaKind
    rate: float
    used: float = 0.0
    unused: float = 0.0
    throttle_time_ms: float = 0.0
    debt_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """What it gets; `limited` false means that there is no quota (any more)."""

    account: Account
    kind: QuotaKind
    limited: bool
    rate: float
    credit: float = 0.0


class _Holding:
    __slots__ = ("expires_ms", "need", "rate")

    def __init__(self, rate: float, need: float, expires_ms: float) -> None:
        self.rate = rate
        self.need = need
        self.expires_ms = expires_ms


class Booking:
    """One account's rate: what is held by which gateway, and what was not used of it."""

    __slots__ = ("at_ms", "credit", "holdings")

    def __init__(self, now_ms: float) -> None:
        self.holdings: dict[Gateway, _Holding] = {}
        self.credit = 0.0
        self.at_ms = now_ms

    @classmethod
    def of(cls, values: Any) -> Booking:
        """The booking that `values` told of."""
        at_ms, credit, holdings = values
        booking = cls(float(at_ms))
        booking.credit = float(credit)
        for gateway_id, incarnation, rate, need, expires_ms in holdings:
            booking.holdings[int(gateway_id), str(incarnation)] = _Holding(float(rate), float(need), float(expires_ms))
        return booking

    def values(self) -> list[object]:
        """All of it in lists, for a store."""
        held = [[*gateway, one.rate, one.need, one.expires_ms] for gateway, one in self.holdings.items()]
        return [self.at_ms, self.credit, held]

    def leased(self, now_ms: float) -> float:
        return sum(holding.rate for holding in self.holdings.values() if holding.expires_ms > now_ms)

    def settle(self, rate: float, unused: float, live: Collection[int], now_ms: float) -> None:
        """Drops the leases of gateways that are gone and books what nobody held or used."""
        for gateway, holding in list(self.holdings.items()):
            if holding.expires_ms <= now_ms or gateway[0] not in live:
                del self.holdings[gateway]
        idle = max(0.0, rate - self.leased(now_ms)) * max(0.0, now_ms - self.at_ms) / 1000
        self.credit = min(rate * CREDIT_MS / 1000, self.credit + idle + max(0.0, unused))
        self.at_ms = now_ms

    def share(self, gateway: Gateway, need: float, rate: float) -> float:
        others = [holding for other, holding in self.holdings.items() if other != gateway]
        held = sum(holding.rate for holding in others)
        # Of the floors' part each newcomer gets half of what is left of it, so that all of them never exceed it.
        left = max((rate * (1 + FLOOR) - held) / 2, FLOOR * rate / 1000)
        floor = min(FLOOR * rate / (len(others) + 1), left)
        target = split(rate, [need, *(holding.need for holding in others)], floor)[0]
        return max(floor, min(target, rate - held))

    def take_credit(self, wanted: float) -> float:
        credit = min(self.credit, max(0.0, wanted))
        self.credit -= credit
        return credit


def book(
    booking: Booking,
    gateway: Gateway,
    demand: Demand,
    rate: float,
    holders: Holders,
    now_ms: float,
    lease_ms: float,
    *,
    grace: bool,
) -> Grant:
    """Decides over one demand and writes it into the booking; with `grace` nobody gets more than an even share."""
    entry = (demand.account, demand.kind)
    booking.settle(rate, demand.unused, holders, now_ms)
    if demand.rate <= 0:
        booking.holdings.pop(gateway, None)
        return Grant(*entry, limited=True, rate=0.0)
    granted = booking.share(gateway, demand.rate, rate)
    credit = 0.0
    if grace:
        granted = min(granted, rate / len(holders))
    else:
        credit = booking.take_credit((demand.rate - granted) * lease_ms / 2000)
    booking.holdings[gateway] = _Holding(granted, demand.rate, now_ms + HELD_LEASES * lease_ms)
    return Grant(*entry, limited=True, rate=granted, credit=credit)


class LeaseTable:
    """Splits every limited client's rate between the gateways that ask for it."""

    def __init__(self, lease_ms: float, max_entries: int, now_ms: float) -> None:
        self.lease_ms = lease_ms
        self._max_entries = max_entries
        # The leases of a predecessor may still be in use; until they ran out nobody gets more than an even share.
        self._grace_until_ms = now_ms + lease_ms
        self._sweep_at_ms = now_ms + 10 * lease_ms
        self._bookings: dict[Entry, Booking] = {}

    def __len__(self) -> int:
        return len(self._bookings)

    def acquire(
        self, gateway: Gateway, demands: Iterable[Demand], quotas: ClientQuotas, holders: Holders, now_ms: float
    ) -> list[Grant]:
        """Renews or gives leases, one grant per demand, in order."""
        if now_ms >= self._sweep_at_ms:
            self._sweep(now_ms)
        holders = with_one(holders, gateway[0])
        return [self._grant(gateway, demand, quotas, holders, now_ms) for demand in demands]

    def leased(self, account: Account, kind: QuotaKind, now_ms: float) -> float:
        """What gateways and brokers may use a second at this moment, over all of them."""
        booked = self._bookings.get((account, kind))
        return 0.0 if booked is None else booked.leased(now_ms)

    def _grant(self, gateway: Gateway, demand: Demand, quotas: ClientQuotas, holders: Holders, now_ms: float) -> Grant:
        entry = (demand.account, demand.kind)
        rate = quotas.of_account(*entry)
        if rate is None:
            self._bookings.pop(entry, None)
            return Grant(*entry, limited=False, rate=0.0)
        booking = self._bookings.get(entry)
        if booking is None:
            if len(self._bookings) >= self._max_entries:
                return Grant(*entry, limited=True, rate=rate / len(holders))
            booking = self._bookings[entry] = Booking(now_ms)
        grace = now_ms < self._grace_until_ms
        return book(booking, gateway, demand, rate, holders, now_ms, self.lease_ms, grace=grace)

    def _sweep(self, now_ms: float) -> None:
        self._sweep_at_ms = now_ms + 10 * self.lease_ms
        for entry, booking in list(self._bookings.items()):
            if not booking.leased(now_ms):
                del self._bookings[entry]

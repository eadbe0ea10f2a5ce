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

from tailrace.quota.entity import ClientQuotas, QuotaKind
from tailrace.quota.split import split

FLOOR = 0.02
"""The part of a rate that newcomers may get above it, all together; the error bound's 2 %."""

CREDIT_MS = 600.0
HELD_LEASES = 4

Entry = tuple[str, QuotaKind]
Gateway = tuple[int, str]  # (id, incarnation)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one gateway wants for one client. A demand of 0 gives the lease back.

    `used_bytes` were charged since the last report, `unused_bytes` of the lease ran over.
    """

    client_id: str
    kind: QuotaKind
    bytes_per_second: float
    used_bytes: float = 0.0
    unused_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """What it gets; `limited` false means that there is no quota (any more)."""

    client_id: str
    kind: QuotaKind
    limited: bool
    rate_bytes_per_second: float
    credit_bytes: float = 0.0


class _Holding:
    __slots__ = ("expires_ms", "need", "rate")

    def __init__(self, rate: float, need: float, expires_ms: float) -> None:
        self.rate = rate
        self.need = need
        self.expires_ms = expires_ms


class _Account:
    """One client's rate: the holdings by gateway, and what was not used of it."""

    __slots__ = ("_at_ms", "credit", "holdings")

    def __init__(self, now_ms: float) -> None:
        self.holdings: dict[Gateway, _Holding] = {}
        self.credit = 0.0
        self._at_ms = now_ms

    def leased(self, now_ms: float) -> float:
        return sum(holding.rate for holding in self.holdings.values() if holding.expires_ms > now_ms)

    def settle(self, rate: float, unused: float, live: Collection[int], now_ms: float) -> None:
        """Drops the leases of gateways that are gone and books what nobody held or used."""
        for gateway, holding in list(self.holdings.items()):
            if holding.expires_ms <= now_ms or gateway[0] not in live:
                del self.holdings[gateway]
        idle = max(0.0, rate - self.leased(now_ms)) * (now_ms - self._at_ms) / 1000
        self.credit = min(rate * CREDIT_MS / 1000, self.credit + idle + max(0.0, unused))
        self._at_ms = now_ms

    def share(self, gateway: Gateway, need: float, rate: float) -> float:
        others = [holding for other, holding in self.holdings.items() if other != gateway]
        floor = FLOOR * rate / (len(others) + 1)
        target = split(rate, [need, *(holding.need for holding in others)], floor)[0]
        return max(floor, min(target, rate - sum(holding.rate for holding in others)))

    def take_credit(self, wanted: float) -> float:
        credit = min(self.credit, max(0.0, wanted))
        self.credit -= credit
        return credit


class LeaseTable:
    """Splits every limited client's rate between the gateways that ask for it."""

    def __init__(self, lease_ms: float, max_entries: int, now_ms: float) -> None:
        self.lease_ms = lease_ms
        self._max_entries = max_entries
        # The leases of a predecessor may still be in use; until they ran out nobody gets more than an even share.
        self._grace_until_ms = now_ms + lease_ms
        self._sweep_at_ms = now_ms + 10 * lease_ms
        self._accounts: dict[Entry, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def acquire(
        self, gateway: Gateway, demands: Iterable[Demand], quotas: ClientQuotas, live: Collection[int], now_ms: float
    ) -> list[Grant]:
        """Renews or gives leases; `live` are the ids of the gateways that run. One grant per demand, in order."""
        if now_ms >= self._sweep_at_ms:
            self._sweep(now_ms)
        if gateway[0] not in live:
            live = {*live, gateway[0]}  # its registration has not reached our image yet
        return [self._grant(gateway, demand, quotas, live, now_ms) for demand in demands]

    def leased(self, client_id: str, kind: QuotaKind, now_ms: float) -> float:
        """Bytes per second that gateways may use at this moment, over all of them."""
        account = self._accounts.get((client_id, kind))
        return 0.0 if account is None else account.leased(now_ms)

    def _grant(
        self, gateway: Gateway, demand: Demand, quotas: ClientQuotas, live: Collection[int], now_ms: float
    ) -> Grant:
        entry = (demand.client_id, demand.kind)
        rate = quotas.rate(*entry)
        if rate is None:
            self._accounts.pop(entry, None)
            return Grant(*entry, limited=False, rate_bytes_per_second=0.0)
        account = self._accounts.get(entry)
        if account is None:
            if len(self._accounts) >= self._max_entries:
                return Grant(*entry, limited=True, rate_bytes_per_second=rate / len(live))
            account = self._accounts[entry] = _Account(now_ms)
        account.settle(rate, demand.unused_bytes, live, now_ms)
        if demand.bytes_per_second <= 0:
            account.holdings.pop(gateway, None)
            return Grant(*entry, limited=True, rate_bytes_per_second=0.0)
        granted = account.share(gateway, demand.bytes_per_second, rate)
        credit = 0.0
        if now_ms < self._grace_until_ms:
            granted = min(granted, rate / len(live))
        else:
            credit = account.take_credit((demand.bytes_per_second - granted) * self.lease_ms / 2000)
        account.holdings[gateway] = _Holding(granted, demand.bytes_per_second, now_ms + HELD_LEASES * self.lease_ms)
        return Grant(*entry, limited=True, rate_bytes_per_second=granted, credit_bytes=credit)

    def _sweep(self, now_ms: float) -> None:
        self._sweep_at_ms = now_ms + 10 * self.lease_ms
        for entry, account in list(self._accounts.items()):
            if not account.leased(now_ms):
                del self._accounts[entry]

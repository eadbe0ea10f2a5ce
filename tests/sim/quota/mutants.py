"""The rules of the split broken on purpose, one at a time: some seed must break the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.worlds import broken
from tailrace.quota import leases
from tailrace.quota.leased_bucket import LeasedBucket
from tailrace.quota.leases import Booking
from tailrace.quota.pending_throttle import PendingThrottle

_DEMAND: Callable[..., Any] = LeasedBucket.demand
_SHARE: Callable[..., float] = Booking.share
_GRANT: Callable[..., None] = LeasedBucket.grant


def _whole_rate(self: Booking, gateway: Any, need: float, rate: float) -> float:
    """Every gateway gets the whole rate."""
    return rate


def _first_share(self: Booking, gateway: Any, need: float, rate: float) -> float:
    """A lease stays as large as it was given first."""
    holding = self.holdings.get(gateway)
    return _SHARE(self, gateway, need, rate) if holding is None else holding.rate


def _no_unused(self: LeasedBucket, now_ms: float) -> Any:
    demand = _DEMAND(self, now_ms)
    return leases.Demand(demand.account, demand.kind, demand.rate, demand.used)


def _only_what_was_used(self: LeasedBucket, now_ms: float) -> Any:
    """Nobody asks for more than was used lately."""
    demand = _DEMAND(self, now_ms)
    rate = min(demand.rate, demand.used * 1000 / self._terms.lease_ms + 1) if demand.rate else 0.0
    return leases.Demand(demand.account, demand.kind, rate, demand.used, demand.unused)


def _reads_at_once(self: PendingThrottle) -> int:
    return 0


def _credit_thrice(self: LeasedBucket, rate: float, credit: float, expires_ms: float, now_ms: float) -> None:
    _GRANT(self, rate, 3 * credit, expires_ms, now_ms)


def _dead_hold_on(self: Booking, rate: float, unused: float, live: Any, now_ms: float) -> None:
    _SETTLE(self, rate, unused, {gateway for gateway, _ in self.holdings} | set(live), now_ms)


_SETTLE: Callable[..., None] = Booking.settle


MUTANTS = (
    broken("every gateway gets the whole rate", Booking, "share", _whole_rate, 7),
    broken("a lease stays as large as it was first", Booking, "share", _first_share, 3),
    broken("what was not used is not given back", LeasedBucket, "demand", _no_unused, 76),
    broken("a client that is held back asks for no more", LeasedBucket, "demand", _only_what_was_used, 10),
    broken("a connection is read when the told time is over", PendingThrottle, "wait_ms", _reads_at_once, 21),
    broken("what was not used is given three times", LeasedBucket, "grant", _credit_thrice, 3),
    broken("what was not used is kept without end", leases, "CREDIT_MS", 1e6, 15),
    broken("a dead gateway keeps its lease", Booking, "settle", _dead_hold_on, 3),
)

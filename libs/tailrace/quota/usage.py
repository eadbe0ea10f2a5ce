"""What limited clients use of their quotas, from the reports of the processes that hold their sockets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tailrace.quota.entity import KEY_OF, UNITS, Account, ClientQuotas, QuotaKind
from tailrace.quota.leases import Demand

WINDOW_MS = 5_000.0
"""How far a rate looks back: what is older counts for a third of it, and less and less."""
_FORGOTTEN_MS = 60_000.0
_HELD_MS = 1000.0  # who was throttled is shown to be so for so long, or until the debt is paid


@dataclass(frozen=True, slots=True)
class Used:
    """One account's use of one quota, in the units of the quota's key."""

    account: Account
    kind: QuotaKind
    limit: float
    rate: float
    total: float
    throttle_time_ms: float
    throttled: bool

    @property
    def key(self) -> str:
        """The quota's key."""
        return KEY_OF[self.kind]

    @property
    def share(self) -> float:
        """How much of its limit the account uses: 1 is all of it."""
        return self.rate / self.limit


class _Counts:
    __slots__ = ("at_ms", "decayed", "since_ms", "throttle_time_ms", "throttled_until_ms", "total")

    def __init__(self, now_ms: float) -> None:
        self.since_ms = self.at_ms = now_ms
        self.decayed = self.total = 0.0
        self.throttle_time_ms = 0.0
        self.throttled_until_ms = now_ms

    def add(self, demand: Demand, now_ms: float) -> None:
        self.decayed = self.decayed * math.exp((self.at_ms - now_ms) / WINDOW_MS) + demand.used
        self.at_ms = now_ms
        self.total += demand.used
        self.throttle_time_ms += demand.throttle_time_ms
        # Between two small requests there is no debt, though the client is held back all the time.
        held_ms = max(demand.debt_ms, _HELD_MS if demand.throttle_time_ms else 0.0)
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + held_ms)

    def rate(self, now_ms: float) -> float:
        """A second's use; an account that has just begun has not used a whole window."""
        window_ms = WINDOW_MS * (1 - math.exp((self.since_ms - now_ms) / WINDOW_MS))
        decayed = self.decayed * math.exp((self.at_ms - now_ms) / WINDOW_MS)
        return decayed * 1000 / max(window_ms, 1000.0)


class Usage:
    """Of all accounts that a quota service hears of, at most max_entries: above that the oldest is forgotten."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._counts: dict[tuple[Account, QuotaKind], _Counts] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def report(self, demands: Iterable[Demand], now_ms: float) -> None:
        """What one holder of sockets has charged since its last report."""
        for demand in demands:
            entry = (demand.account, demand.kind)
            counts = self._counts.pop(entry, None) or _Counts(now_ms)
            self._counts[entry] = counts
            counts.add(demand, now_ms)
        while len(self._counts) > self._max_entries:
            del self._counts[next(iter(self._counts))]

    def rows(self, quotas: ClientQuotas, now_ms: float) -> list[Used]:
        """What is used now, the largest share of a limit first; what was silent for a minute is forgotten."""
        rows = []
        for (account, kind), counts in list(self._counts.items()):
            limit = quotas.of_account(account, kind)
            if limit is None or now_ms - counts.at_ms > _FORGOTTEN_MS:
                del self._counts[account, kind]
                continue
            unit = UNITS[kind]
            rate, total = counts.rate(now_ms) / unit, counts.total / unit
            throttled = counts.throttled_until_ms > now_ms
            rows.append(Used(account, kind, limit / unit, rate, total, counts.throttle_time_ms, throttled))
        return sorted(rows, key=lambda used: (-used.share, used.account, used.kind))

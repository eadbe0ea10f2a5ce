"""Where leases are kept: one quota service alone keeps them in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leases import Demand, Gateway, Grant, LeaseTable


class LeaseStore(Protocol):
    """What a store that several quota services share must do."""

    async def acquire(
        self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, live: Collection[int], now_ms: float
    ) -> list[Grant]:
        """Renews or gives leases, one grant per demand in order; `live` are the ids of the gateways that run."""
        ...

    def clients(self) -> int:
        """How many limited clients have leases."""
        ...


class MemoryStore:
    """The leases of this process's life; a successor starts with a grace of one lease."""

    def __init__(self, lease_ms: float, max_entries: int, now_ms: float) -> None:
        self._table = LeaseTable(lease_ms, max_entries, now_ms)

    async def acquire(
        self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, live: Collection[int], now_ms: float
    ) -> list[Grant]:
        return self._table.acquire(gateway, demands, quotas, live, now_ms)

    def clients(self) -> int:
        return len(self._table)

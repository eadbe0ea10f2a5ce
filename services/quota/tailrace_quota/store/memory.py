"""One quota service alone keeps leases in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leases import Demand, Gateway, Grant, Holders, LeaseTable


class MemoryStore:
    """The leases of this process's life; a successor starts with a grace of one lease."""

    def __init__(self, lease_ms: float, max_entries: int, now_ms: float) -> None:
        self.cluster_id = ""
        self._table = LeaseTable(lease_ms, max_entries, now_ms)

    async def acquire(
        self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, holders: Holders, now_ms: float
    ) -> list[Grant]:
        return self._table.acquire(gateway, demands, quotas, holders, now_ms)

    @property
    def available(self) -> bool:
        return True

    def clients(self) -> int:
        return len(self._table)

    async def close(self) -> None:
        """Holds nothing open."""

"""What a store of leases must do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leases import Demand, Gateway, Grant, Holders


class StoreUnavailable(Exception):
    """No lease can be given now: gateways go on by `quota.unavailable`, and ask again."""


class LeaseStore(Protocol):
    """The leases of one quota service, or of several that share them."""

    cluster_id: str

    @property
    def available(self) -> bool:
        """Whether the last request was decided."""
        ...

    async def acquire(
        self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, holders: Holders, now_ms: float
    ) -> list[Grant]:
        """Renews or gives leases, one grant per demand in order.

        Raises StoreUnavailable.
        """
        ...

    def clients(self) -> int:
        """How many limited clients have leases."""
        ...

    async def close(self) -> None:
        """Gives back what the store holds open."""
        ...

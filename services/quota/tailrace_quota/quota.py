"""The quota service: what the metadata image says of quotas and their holders, and the leases given by it."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace.net.members.lease_holders import lease_holders
from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leases import Demand, Gateway, Grant, Holders
from tailrace.quota.usage import Usage, Used
from tailrace_quota.metrics import QuotaMetrics
from tailrace_quota.scopes import Scopes
from tailrace_quota.store.port import LeaseStore

ROLE = "quota"


class Quota:
    """Gives leases by the quotas of the last image it has seen, also while no controller answers."""

    def __init__(
        self,
        store: LeaseStore,
        lease_ms: int,
        max_entries: int,
        clock: Clock,
        metrics: QuotaMetrics,
        scopes: Scopes,
    ) -> None:
        self.lease_ms = lease_ms
        self.knows_quotas = False
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._scopes = scopes
        self._quotas = ClientQuotas()
        self._holders: Holders = frozenset()
        self._usage = Usage(max_entries)
        metrics.usage = self.usage
        metrics.clients = store.clients
        metrics.store_available = lambda: store.available
        metrics.scopes_differing = lambda: scopes.differing(self._holders)

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Follows the image; cheap when neither quotas nor services nor brokers changed."""
        self.knows_quotas = new.offset >= 0
        self._store.cluster_id = new.cluster_id
        if old is new or new.quotas is not old.quotas:
            self._quotas = ClientQuotas(new.quotas)
        if old is new or new.services is not old.services or new.brokers is not old.brokers:
            self._holders = lease_holders(new)

    async def acquire(self, gateway: Gateway, demands: Sequence[Demand]) -> list[Grant]:
        """Leases for one gateway or broker, in the order of its demands; raises StoreUnavailable."""
        now_ms = self._clock.monotonic_ms()
        self._metrics.acquired(demands)
        self._usage.report(demands, now_ms)
        self._scopes.seen(gateway[0], demands)
        return await self._store.acquire(gateway, demands, self._quotas, self._holders, now_ms)

    def usage(self) -> list[Used]:
        """What limited clients use now, the largest share of a limit first."""
        return self._usage.rows(self._quotas, self._clock.monotonic_ms())

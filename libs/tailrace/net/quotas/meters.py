"""Meters over the leased quotas: the same user's client id is one meter for all its connections to this process."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace.net.identity import ANONYMOUS_USER
from tailrace.net.members.lease_holders import accepting_count, lease_holders
from tailrace.net.quotas.meter import Meter
from tailrace.quota.entity import ClientQuotas, QuotaKind, canonical_ip
from tailrace.quota.leased import ClientMeter, LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.quota.pending_throttle import PendingThrottle

QUOTA_WINDOW_MS = 500.0  # of a client's rate: the most that one Fetch may bring


class ClockedMeter(ClientMeter):
    """A client's meter that knows the time, as the relay does not."""

    __slots__ = ("_max_throttle_ms", "_now_ms", "work_ms")

    def __init__(
        self,
        user: str,
        client_id: str,
        broker_id: int | None,
        max_throttle_ms: float,
        now_ms: Callable[[], float],
        work_ms: Callable[[], float],
    ) -> None:
        super().__init__(user, client_id, broker_id)
        self._max_throttle_ms = max_throttle_ms
        self.work_ms = work_ms
        self._now_ms = now_ms

    def produced(self, size_bytes: int) -> int:
        room = self.produce_room  # small requests are many: most of them cost this alone
        if size_bytes < room.room:
            room.room -= size_bytes
            return 0
        return self.charge(QuotaKind.PRODUCE, size_bytes, self._now_ms())

    def fetched(self, size_bytes: int) -> int:
        room = self.fetch_room
        if size_bytes < room.room:
            room.room -= size_bytes
            return 0
        return self.charge(QuotaKind.FETCH, size_bytes, self._now_ms())

    def worked(self, time_ms: float) -> int:
        return self.charge(QuotaKind.REQUEST, time_ms * 1000, self._now_ms())

    def indebted(self) -> int:
        return self.debt(self._now_ms())

    def pending_throttle(self) -> PendingThrottle:
        return self.take_pending_throttle(self._max_throttle_ms, self._now_ms)

    def fetch_max_bytes(self) -> int:
        return self.window_bytes(QuotaKind.FETCH, self._now_ms())


class Quotas:
    """The quotas of one gateway, or of one broker's own listener: meters by client id, up to date with the image."""

    def __init__(
        self, terms: Terms, max_entries: int, clock: Clock, work_ms: Callable[[], float], *, per_broker: bool = False
    ) -> None:
        """per_broker: quota.scope=broker; a rate holds for what goes to each broker by itself."""
        self._clock = clock
        self._per_broker = per_broker
        self._work_ms = work_ms
        self.leased = LeasedQuota(terms, max_entries, self._new_meter)

    @property
    def held(self) -> ClientQuotas:
        """The quotas of the last image that was seen."""
        return self.leased.quotas

    def meter_of(self, broker_id: int, client_id: bytes, user: str = ANONYMOUS_USER) -> Meter:
        """The meter of a user's id that stands in a request's header, at the broker that the client talks to."""
        node = broker_id if self._per_broker else None
        meter = self.leased.meter(user, client_id.decode("utf-8", "replace"), self._clock.monotonic_ms(), node)
        assert isinstance(meter, ClockedMeter)
        return meter

    def admit(self, client_host: str, broker_id: int) -> int:
        """0 for a connection that is served; else for how many ms its address has had too many."""
        node = broker_id if self._per_broker else None
        return self.leased.admit(canonical_ip(client_host) or client_host, self._clock.monotonic_ms(), node)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Quotas, and how many they are split between."""
        if old.quotas is not new.quotas or old.services is not new.services or old.brokers is not new.brokers:
            quotas = self.held if old.quotas is new.quotas else ClientQuotas(new.quotas)
            now_ms = self._clock.monotonic_ms()
            self.leased.update(quotas, len(lease_holders(new)), now_ms, accepting=accepting_count(new))

    def _new_meter(self, user: str, client_id: str, broker_id: int | None) -> ClientMeter:
        longest_ms = self.leased.terms.max_throttle_ms
        return ClockedMeter(user, client_id, broker_id, longest_ms, self._clock.monotonic_ms, self._work_ms)

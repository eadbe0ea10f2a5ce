"""The relay's meters over the leased quotas: the same client id is one meter for all its connections."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace.quota.entity import ClientQuotas, QuotaKind
from tailrace.quota.leased import ClientMeter, LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace_gateway.quotas.meter import Meter


class ClockedMeter(ClientMeter):
    """A client's meter that knows the time, as the relay does not."""

    __slots__ = ("_now_ms",)

    def __init__(self, client_id: str, now_ms: Callable[[], float]) -> None:
        super().__init__(client_id)
        self._now_ms = now_ms

    def produced(self, size_bytes: int) -> int:
        return self.charge(QuotaKind.PRODUCE, size_bytes, self._now_ms())

    def fetched(self, size_bytes: int) -> int:
        return self.charge(QuotaKind.FETCH, size_bytes, self._now_ms())

    def fetch_max_bytes(self) -> int:
        return self.window_bytes(QuotaKind.FETCH, self._now_ms())


class Quotas:
    """The gateway's quotas: meters by client id, kept up to date with the image."""

    def __init__(self, terms: Terms, max_entries: int, clock: Clock) -> None:
        self._clock = clock
        self.leased = LeasedQuota(terms, max_entries, self._new_meter)

    def meter_of(self, client_id: bytes) -> Meter:
        """The meter of the id that stands in a request's header."""
        meter = self.leased.meter(client_id.decode("utf-8", "replace"), self._clock.monotonic_ms())
        assert isinstance(meter, ClockedMeter)
        return meter

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Quotas and the number of gateways they are split between."""
        if old.quotas is not new.quotas or old.services is not new.services:
            gateways = sum(1 for _ in new.services_of("gateway"))
            self.leased.update(ClientQuotas(new.quotas), gateways, self._clock.monotonic_ms())

    def _new_meter(self, client_id: str) -> ClientMeter:
        return ClockedMeter(client_id, self._clock.monotonic_ms)

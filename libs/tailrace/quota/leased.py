"""The quotas at whoever owns client sockets: a bucket per client id and kind, filled by leases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

from tailrace.quota.entity import ClientQuotas, QuotaKind
from tailrace.quota.leased_bucket import INT_MAX, LeasedBucket, Terms
from tailrace.quota.leases import Demand, Grant


class ClientMeter:
    """One client id at one gateway. The flags let the hot path skip what has no quota."""

    __slots__ = ("__weakref__", "buckets", "client_id", "fetch_limited", "produce_limited")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.buckets: dict[QuotaKind, LeasedBucket] = {}
        self.produce_limited = False
        self.fetch_limited = False

    def charge(self, kind: QuotaKind, size_bytes: float, now_ms: float) -> int:
        """Returns throttle_time_ms, 0 without a quota."""
        bucket = self.buckets.get(kind)
        return 0 if bucket is None else bucket.charge(size_bytes, now_ms)

    def window_bytes(self, kind: QuotaKind, now_ms: float) -> int:
        bucket = self.buckets.get(kind)
        return INT_MAX if bucket is None else bucket.window_bytes(now_ms)

    def limit(self, quotas: ClientQuotas, terms: Terms, now_ms: float) -> None:
        """Takes over the quotas that now hold for this client id."""
        for kind in QuotaKind:
            rate = quotas.rate(self.client_id, kind)
            bucket = self.buckets.get(kind)
            if rate is None:
                self.buckets.pop(kind, None)
            elif bucket is None:
                self.buckets[kind] = LeasedBucket(self.client_id, kind, max(1.0, rate), terms, now_ms)
            elif bucket.limit != max(1.0, rate):
                bucket.relimit(max(1.0, rate), now_ms)
        self.produce_limited = QuotaKind.PRODUCE in self.buckets
        self.fetch_limited = QuotaKind.FETCH in self.buckets


class LeasedQuota:
    """All client ids at one gateway.

    A meter lives as long as a connection uses it, or its lease does: who reconnects finds the old debt. At most
    max_entries leases are held; above that the oldest is let go, and comes back with the client's next request.
    """

    def __init__(self, terms: Terms, max_entries: int, new_meter: Callable[[str], ClientMeter] = ClientMeter) -> None:
        self.terms = terms
        self.terms.wanted = self._wanted
        self.on_wanted: Callable[[], None] = lambda: None
        self._max_entries = max_entries
        self._new_meter = new_meter
        self._quotas = ClientQuotas()
        self._meters: WeakValueDictionary[str, ClientMeter] = WeakValueDictionary()
        self._active: dict[LeasedBucket, ClientMeter | None] = {}
        self._fresh: list[LeasedBucket] = []

    @property
    def active(self) -> int:
        """How many leases are held or wanted."""
        return len(self._active)

    def meter(self, client_id: str, now_ms: float) -> ClientMeter:
        """The meter of a client id; the same one for all its connections."""
        meter = self._meters.get(client_id)
        if meter is None:
            meter = self._meters[client_id] = self._new_meter(client_id)
            meter.limit(self._quotas, self.terms, now_ms)
        return meter

    def update(self, quotas: ClientQuotas, gateways: int, now_ms: float) -> None:
        """The metadata image changed; takes hold at once, without asking the quota service."""
        self.terms.gateways = max(1, gateways)
        if quotas == self._quotas:
            return
        self._quotas = quotas
        for meter in list(self._meters.values()):
            meter.limit(quotas, self.terms, now_ms)
        for bucket in list(self._active):
            if quotas.rate(bucket.client_id, bucket.kind) is None:
                self._let_go(bucket)

    def demands(self, now_ms: float) -> list[Demand]:
        """What to ask the quota service for now; buckets that were idle are given back and forgotten."""
        self._fresh.clear()
        demands = [bucket.demand(now_ms) for bucket in self._active]
        for bucket in [bucket for bucket in self._active if not bucket.active]:
            self._let_go(bucket)
        return demands

    def fresh_demands(self, now_ms: float) -> list[Demand]:
        """The same for clients that appeared since anything was asked; the others' reports keep their rhythm."""
        fresh, self._fresh = self._fresh, []
        return [bucket.demand(now_ms) for bucket in fresh if bucket.active]

    def unanswered(self, demands: Iterable[Demand]) -> None:
        """The quota service did not answer these."""
        for demand in demands:
            meter = self._meters.get(demand.client_id)
            bucket = None if meter is None else meter.buckets.get(demand.kind)
            if bucket is not None and bucket.active:
                bucket.unanswered(demand)

    def granted(self, grants: Iterable[Grant], lease_ms: float, asked_ms: float, now_ms: float) -> None:
        """Takes over leases that were asked for at `asked_ms`; they run from then, so that ours end first."""
        for grant in grants:
            meter = self._meters.get(grant.client_id)
            bucket = None if meter is None else meter.buckets.get(grant.kind)
            if bucket is not None and bucket.active and grant.limited:
                bucket.grant(grant.rate_bytes_per_second, grant.credit_bytes, asked_ms + lease_ms, now_ms)

    def _wanted(self, bucket: LeasedBucket) -> None:
        if len(self._active) >= self._max_entries:
            self._let_go(next(iter(self._active)))
        self._active[bucket] = self._meters.get(bucket.client_id)
        self._fresh.append(bucket)
        self.on_wanted()

    def _let_go(self, bucket: LeasedBucket) -> None:
        bucket.active = False
        self._active.pop(bucket, None)

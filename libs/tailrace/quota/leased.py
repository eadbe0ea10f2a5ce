"""The quotas at whoever owns client sockets: a bucket per account and kind, filled by leases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from weakref import WeakValueDictionary

from tailrace.quota.entity import METERED, Account, ClientQuotas, QuotaKind, at_broker
from tailrace.quota.leased_bucket import INT_MAX, UNLIMITED, LeasedBucket, Room, Terms
from tailrace.quota.leases import Demand, Grant
from tailrace.quota.pending_throttle import PendingThrottle

_EARLY_LEASES = 0.04  # a report that is due so soon is made now


class ClientMeter:
    """One user's client id at one gateway, or of it what goes to one broker. The flags let the hot path skip what has
    no quota."""

    __slots__ = (
        "__weakref__",
        "_marks",
        "broker",
        "buckets",
        "client_id",
        "fetch_limited",
        "fetch_room",
        "produce_limited",
        "produce_room",
        "request_limited",
        "user",
    )

    def __init__(self, user: str, client_id: str, broker_id: int | None = None) -> None:
        self.user = user
        self.client_id = client_id
        self.broker = broker_id
        self.buckets: dict[QuotaKind, LeasedBucket] = {}
        self._marks: dict[LeasedBucket, float] = {}
        self.produce_room: Room = UNLIMITED
        self.fetch_room: Room = UNLIMITED
        self.produce_limited = False
        self.fetch_limited = False
        self.request_limited = False

    def charge(self, kind: QuotaKind, amount: float, now_ms: float) -> int:
        """Returns throttle_time_ms, 0 without a quota."""
        bucket = self.buckets.get(kind)
        if bucket is None:
            return 0
        if amount < bucket.room:
            bucket.room -= amount
            return 0
        throttle_time_ms = bucket.charge(amount, now_ms)
        if throttle_time_ms:
            self._marks[bucket] = bucket.charged
        return throttle_time_ms

    def debt(self, now_ms: float) -> int:
        """The throttle_time_ms of what earlier connections have taken above the rates; a new one waits for it, too."""
        return max((self.charge(kind, 0.0, now_ms) for kind in self.buckets), default=0)

    def take_pending_throttle(self, max_throttle_ms: float, now_ms: Callable[[], float]) -> PendingThrottle:
        """What was charged above the rate since this was last asked: to be asked right after a charge."""
        marks, self._marks = self._marks, {}
        return PendingThrottle(marks, now_ms() + max_throttle_ms, now_ms)

    def window_bytes(self, kind: QuotaKind, now_ms: float) -> int:
        bucket = self.buckets.get(kind)
        return INT_MAX if bucket is None else bucket.window_bytes(now_ms)

    def limit(self, quotas: ClientQuotas, bucket_of: Callable[[Account, QuotaKind, float], LeasedBucket]) -> None:
        """Takes over the quotas that now hold for this client."""
        found = {kind: quotas.of_client(self.user, self.client_id, kind) for kind in METERED}
        self.buckets = {
            kind: bucket_of(at_broker(one[0], self.broker), kind, one[1])
            for kind, one in found.items()
            if one is not None
        }
        self.produce_room = self.buckets.get(QuotaKind.PRODUCE, UNLIMITED)
        self.fetch_room = self.buckets.get(QuotaKind.FETCH, UNLIMITED)
        self.produce_limited = QuotaKind.PRODUCE in self.buckets
        self.fetch_limited = QuotaKind.FETCH in self.buckets
        self.request_limited = QuotaKind.REQUEST in self.buckets


class LeasedQuota:
    """All accounts at one gateway.

    A bucket lives as long as a client's meter uses it, or its lease does: a client that reconnects finds the old debt.
    At most max_entries leases are held; above that the oldest is let go, and comes back with the client's next request.
    """

    def __init__(
        self, terms: Terms, max_entries: int, new_meter: Callable[[str, str, int | None], ClientMeter] = ClientMeter
    ) -> None:
        self.terms = terms
        self.terms.wanted = self._wanted
        self.on_wanted: Callable[[], None] = lambda: None
        self._max_entries = max_entries
        self._new_meter = new_meter
        self._quotas = ClientQuotas()
        self._meters: WeakValueDictionary[tuple[str, str, int | None], ClientMeter] = WeakValueDictionary()
        self._buckets: WeakValueDictionary[tuple[Account, QuotaKind], LeasedBucket] = WeakValueDictionary()
        self._active: dict[LeasedBucket, None] = {}
        self._fresh: dict[LeasedBucket, None] = {}

    @property
    def quotas(self) -> ClientQuotas:
        """What holds now."""
        return self._quotas

    @property
    def active(self) -> int:
        """How many leases are held or wanted."""
        return len(self._active)

    @property
    def known(self) -> int:
        """How many accounts are kept: those with a lease, and those of connected clients."""
        return len(self._buckets)

    def meter(self, user: str, client_id: str, now_ms: float, broker_id: int | None = None) -> ClientMeter:
        """The meter of a user's client id (at one broker, if named); the same one for all its connections."""
        key = (user, client_id, broker_id)
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = self._new_meter(*key)
            meter.limit(self._quotas, self._bucket_at(now_ms))
        return meter

    def admit(self, ip: str, now_ms: float, broker_id: int | None = None) -> int:
        """0 for a connection that may be served; else for how long its address has had too many (KIP-612)."""
        found = self._quotas.of_ip(ip)
        if found is None:
            return 0
        account = at_broker(found[0], broker_id)
        return self._bucket_at(now_ms)(account, QuotaKind.CONNECTION, found[1]).admit(now_ms)

    def update(self, quotas: ClientQuotas, gateways: int, now_ms: float, *, accepting: int | None = None) -> None:
        """The metadata image changed; takes hold at once, without asking the quota service.

        gateways: how many processes may hold sockets. accepting: how many of them accept connections, if not all.
        """
        self.terms.gateways = max(1, gateways)
        self.terms.accepting = self.terms.gateways if accepting is None else max(1, accepting)
        if quotas == self._quotas:
            return
        self._quotas = quotas
        for bucket in list(self._buckets.values()):
            rate = quotas.of_account(bucket.account, bucket.kind)
            bucket.lifted = rate is None
            if rate is None:
                self._free(bucket)
                bucket.report()
            elif bucket.limit != max(1.0, rate):
                bucket.relimit(max(1.0, rate), now_ms)
        for meter in list(self._meters.values()):
            meter.limit(quotas, self._bucket_at(now_ms))

    def demands(self, now_ms: float, begun_ms: float | None = None, most: int | None = None) -> list[Demand]:
        """What to ask the quota service for now: to be called every quarter of a lease.

        An account is due every half lease, or every quarter while its lease changes. What was idle is given back and
        forgotten. most: how many may be asked for at once; it is called until there is nothing left that was due when
        that was begun.
        """
        until_ms = (now_ms if begun_ms is None else begun_ms) + _EARLY_LEASES * self.terms.lease_ms
        due = list(islice((bucket for bucket in self._active if bucket.due_ms <= until_ms), most))
        if most is None or len(due) < most:
            self._fresh.clear()
        return self._asked(due, now_ms)

    def fresh_demands(self, now_ms: float, most: int | None = None) -> list[Demand]:
        """The same for clients that appeared since anything was asked; the others' reports keep their rhythm."""
        return self._asked(list(islice(self._fresh, most)), now_ms)

    def unanswered(self, demands: Iterable[Demand]) -> None:
        """The quota service did not answer these."""
        for demand in demands:
            bucket = self._buckets.get((demand.account, demand.kind))
            if bucket is not None and bucket.active:
                bucket.unanswered(demand)

    def granted(self, grants: Iterable[Grant], lease_ms: float, asked_ms: float, now_ms: float) -> None:
        """Takes over leases that were asked for at `asked_ms`; they run from then, so that ours end first."""
        for grant in grants:
            bucket = self._buckets.get((grant.account, grant.kind))
            if bucket is not None and bucket.active and grant.limited:
                bucket.grant(grant.rate, grant.credit, asked_ms + lease_ms, now_ms)

    def _asked(self, buckets: Iterable[LeasedBucket], now_ms: float) -> list[Demand]:
        demands = []
        for bucket in buckets:
            self._fresh.pop(bucket, None)
            demands.append(bucket.demand(now_ms))
            if not bucket.active:
                self._free(bucket)
        return demands

    def _bucket_at(self, now_ms: float) -> Callable[[Account, QuotaKind, float], LeasedBucket]:
        def bucket_of(account: Account, kind: QuotaKind, rate: float) -> LeasedBucket:
            bucket = self._buckets.get((account, kind))
            if bucket is None:
                bucket = LeasedBucket(account, kind, max(1.0, rate), self.terms, now_ms)
                self._buckets[account, kind] = bucket
            return bucket

        return bucket_of

    def _wanted(self, bucket: LeasedBucket) -> None:
        if len(self._active) >= self._max_entries:
            self._free(next(iter(self._active)))
        self._active[bucket] = None
        self._fresh[bucket] = None
        self.on_wanted()

    def _free(self, bucket: LeasedBucket) -> None:
        bucket.active = False
        self._active.pop(bucket, None)
        self._fresh.pop(bucket, None)

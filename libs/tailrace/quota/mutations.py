"""Controller mutations (KIP-599): partitions created and deleted, charged where they are decided.

Only one controller is active, so its buckets hold for the whole cluster and need no leases. A bucket begins full: Kafka
keeps `controller.quota.window.num` windows of `controller.quota.window.size.seconds` of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tailrace.quota.bucket import TokenBucket
from tailrace.quota.entity import Account, ClientQuotas, QuotaKind


class MutationQuota:
    """One request's account. `strict`: what finds the bucket in debt is refused; else it is throttled alone."""

    __slots__ = ("_bucket", "_max_throttle_ms", "_now_ms", "_strict")

    def __init__(
        self, bucket: TokenBucket | None, *, strict: bool, max_throttle_ms: float, now_ms: Callable[[], float]
    ) -> None:
        self._bucket = bucket
        self._strict = strict
        self._max_throttle_ms = max_throttle_ms
        self._now_ms = now_ms

    def take(self, partitions: int) -> bool:
        """Charges a topic's partitions; False if they must be refused (THROTTLING_QUOTA_EXCEEDED), charging nothing."""
        bucket, now_ms = self._bucket, self._now_ms()
        if bucket is None:
            return True
        if self._strict and bucket.debt(now_ms) > 0:
            return False
        bucket.charge(partitions, now_ms)
        return True

    @property
    def throttle_time_ms(self) -> int:
        """How long the debt lasts, at most the longest throttle."""
        bucket = self._bucket
        if bucket is None:
            return 0
        return math.ceil(min(self._max_throttle_ms, bucket.debt(self._now_ms()) / bucket.rate * 1000))


UNLIMITED = MutationQuota(None, strict=False, max_throttle_ms=0.0, now_ms=lambda: 0.0)


class MutationQuotas:
    """The buckets of all accounts, at most `max_entries`: above that the oldest is forgotten."""

    def __init__(self, burst_ms: float, max_throttle_ms: float, max_entries: int, now_ms: Callable[[], float]) -> None:
        self._burst_ms = burst_ms
        self._max_throttle_ms = max_throttle_ms
        self._max_entries = max_entries
        self._now_ms = now_ms
        self._buckets: dict[Account, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, quotas: ClientQuotas, user: str, client_id: str, *, strict: bool) -> MutationQuota:
        """What a client's request is charged to."""
        found = quotas.of_client(user, client_id, QuotaKind.CONTROLLER_MUTATION)
        if found is None:
            return UNLIMITED
        bucket = self._bucket(*found)
        return MutationQuota(bucket, strict=strict, max_throttle_ms=self._max_throttle_ms, now_ms=self._now_ms)

    def _bucket(self, account: Account, rate: float) -> TokenBucket:
        now_ms, burst = self._now_ms(), rate * self._burst_ms / 1000
        bucket = self._buckets.pop(account, None)
        if bucket is None:
            bucket = TokenBucket(rate, burst, now_ms)
            bucket.level = burst
            if len(self._buckets) >= self._max_entries:
                del self._buckets[next(iter(self._buckets))]
        elif bucket.rate != rate:
            bucket.refill_at(rate, burst, now_ms)
        self._buckets[account] = bucket
        return bucket

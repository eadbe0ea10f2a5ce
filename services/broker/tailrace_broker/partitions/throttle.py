"""Replication throttles (KIP-73): replicas that are moved leave bandwidth to the others, on both sides. Pure.

Only followers outside the ISR are held back, so a throttle never holds up acks=all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tailrace.quota.bucket import TokenBucket

EVERY = "*"


class Throttle:
    """One rate, in bytes per second, shared by all throttled replicas of this broker on one side."""

    def __init__(self, rate: Callable[[], int], monotonic_ms: Callable[[], float]) -> None:
        """rate is asked each time: leader.replication.throttled.rate and its like change while the broker runs."""
        self._rate = rate
        self._monotonic_ms = monotonic_ms
        self._bucket = TokenBucket(rate(), rate(), monotonic_ms())

    def wait_ms(self) -> float:
        """How long until more may pass; 0 for at once."""
        rate, now_ms = self._rate(), self._monotonic_ms()
        if rate != self._bucket.rate:
            self._bucket.refill_at(rate, rate, now_ms)
        debt = self._bucket.debt(now_ms)
        return debt * 1000 / max(rate, 1) if debt else 0.0

    def charge(self, size_bytes: int) -> None:
        """So many bytes passed."""
        if size_bytes:
            self._bucket.charge(size_bytes, self._monotonic_ms())


def throttled(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's *.replication.throttled.replicas name this replica: `*`, or partition:broker."""
    return bool(replicas) and (EVERY in replicas or f"{partition}:{broker_id}" in replicas)

"""The bound that docs/quotas.md publishes, checked in every 10 s of a history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate

from sim.quota.world import LEASE_MS, SPREAD_MS, World
from tailrace.quota.entity import QuotaKind

WINDOW_MS = 10_000
SLOT_MS = 100
SETTLED_MS = 1000  # after a beginning, a change or a death
MOST_PART, LEAST_PART = 1.02, 0.95


class Watch:
    """Notes a world's rates, disturbances and debts while it runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rates = [(0.0, world.rate)]
        self.disturbed_until_ms = float(SETTLED_MS)
        self.high: list[float] = []  # the largest and the least rate that may hold in each slot
        self.low: list[float] = []
        self.debts: list[float] = []  # at each slot's begin: what the client got ahead of its rate
        self._look()

    def disturb(self, until_ms: float = 0.0) -> None:
        """For a second, or until then, nobody promises the client its rate."""
        self.disturbed_until_ms = max(self.disturbed_until_ms, until_ms, self.world.now_ms + SETTLED_MS)

    def set_rate(self, rate: float) -> None:
        """A client waits for the time that it was told, though its rate be larger by now."""
        self.disturb(self.world.told_until_ms if rate > self.world.rate else 0.0)
        self.world.set_rate(rate)
        self.rates.append((self.world.now_ms, rate))

    def _look(self) -> None:
        now_ms = self.world.now_ms
        valid = [
            rate
            for at, (_, rate) in enumerate(self.rates)
            if at + 1 == len(self.rates) or self.rates[at + 1][0] > now_ms - SLOT_MS - SPREAD_MS
        ]
        self.high.append(max(valid))
        self.low.append(0.0 if now_ms < self.disturbed_until_ms else min(valid))
        self.debts.append(sum(self._debt(at) for at in range(len(self.world.gateways)) if at not in self.world.dead))
        self.world.later(SLOT_MS, self._look)

    def _debt(self, gateway: int) -> float:
        meter = self.world.gateways[gateway].meter("u", "app", self.world.now_ms)
        bucket = meter.buckets[QuotaKind.PRODUCE]
        return bucket.wait_ms(bucket.charged, self.world.now_ms) * bucket.rate / 1000


class Windows:
    """All windows of 10 s that begin after the first second."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        world = watch.world
        self._times = [at_ms for at_ms, _ in world.passed.at]
        self._passed = [0, *accumulate(size for _, size in world.passed.at)]
        self._high = [0.0, *accumulate(rate * SLOT_MS / 1000 for rate in watch.high)]
        self._low = [0.0, *accumulate(rate * SLOT_MS / 1000 for rate in watch.low)]
        self._opened = sorted(one.opened_ms for one in world.connections)
        self._closed = sorted(one.closed_ms for one in world.connections)
        self._largest = max(one.size_bytes for one in world.connections)
        self.starts = range(SETTLED_MS // SLOT_MS, (int(world.now_ms) - WINDOW_MS) // SLOT_MS)

    def worst(self, of: Callable[[int], float]) -> float:
        """The largest of all windows."""
        return max(of(start) for start in self.starts)

    def beyond_the_most(self, start: int) -> float:
        """By how many seconds of the rate the window is above its bound; below zero for none."""
        end = start + WINDOW_MS // SLOT_MS
        connections = bisect_left(self._opened, end * SLOT_MS) - bisect_left(self._closed, start * SLOT_MS)
        rate = max(self._watch.high[start:end])
        most = MOST_PART * self._sum(self._high, start) + LEASE_MS / 1000 * rate + connections * self._largest
        return (self._through(start) - most) / rate

    def below_the_least(self, start: int) -> float:
        """By which part of its rate the client got too little; below zero for none."""
        rate_bytes = self._sum(self._low, start)
        if not rate_bytes:
            return -1.0
        return LEAST_PART - (self._through(start) + self._watch.debts[start]) / rate_bytes

    def _through(self, start: int) -> int:
        begin_ms = start * SLOT_MS
        return (
            self._passed[bisect_left(self._times, begin_ms + WINDOW_MS)]
            - self._passed[bisect_left(self._times, begin_ms)]
        )

    def _sum(self, summed: list[float], start: int) -> float:
        return summed[start + WINDOW_MS // SLOT_MS] - summed[start]

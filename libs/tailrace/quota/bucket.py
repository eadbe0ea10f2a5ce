"""The token bucket that charges first and asks afterwards (KIP-219)."""

from __future__ import annotations


class TokenBucket:
    """Holds up to `burst` bytes, fills at `rate` bytes per second, and may go into debt without bound."""

    __slots__ = ("at_ms", "burst", "level", "lost", "rate")

    def __init__(self, rate: float, burst: float, now_ms: float) -> None:
        # It begins empty: a bucket that began full would give a client a burst at every gateway it comes to.
        self.level = 0.0
        self.lost = 0.0
        self.at_ms = now_ms
        self.rate = rate
        self.burst = burst

    def settle(self, now_ms: float) -> None:
        """Fills what time brought; a clock that stands still or goes back brings nothing."""
        if now_ms > self.at_ms:
            self.level += (now_ms - self.at_ms) * self.rate / 1000
            self.at_ms = now_ms
            self._spill()

    def charge(self, amount: float, now_ms: float) -> float:
        """Takes amount whatever is there and returns the level, below zero for a debt."""
        self.settle(now_ms)
        self.level -= amount
        return self.level

    def refill_at(self, rate: float, burst: float, now_ms: float) -> None:
        """Changes the rate from now on. Debt stays; what is above the new burst is lost."""
        self.settle(now_ms)
        self.rate = rate
        self.burst = burst
        self._spill()

    def add(self, amount: float, now_ms: float) -> None:
        """Puts bytes in that were not earned by time."""
        self.settle(now_ms)
        self.level += amount
        self._spill()

    def take_lost(self, now_ms: float) -> float:
        """Bytes that ran over since this was last asked."""
        self.settle(now_ms)
        lost, self.lost = self.lost, 0.0
        return lost

    def debt(self, now_ms: float) -> float:
        """Bytes that were taken and not yet earned."""
        self.settle(now_ms)
        return max(0.0, -self.level)

    def _spill(self) -> None:
        if self.level > self.burst:
            self.lost += self.level - self.burst
            self.level = self.burst

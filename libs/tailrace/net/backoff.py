"""Exponential backoff with jitter, as Kafka's clients do it (KIP-580)."""

from __future__ import annotations

from random import Random

from tailrace.clock import Clock


class Backoff:
    """Waits longer after every failure: first_ms, then doubled up to most_ms, each spread by a fifth."""

    def __init__(self, clock: Clock, random: Random, first_ms: float = 20, most_ms: float = 1000) -> None:
        self._clock = clock
        self._random = random
        self._first_ms = first_ms
        self._most_ms = most_ms
        self.failures = 0

    def reset(self) -> None:
        """Called after a success."""
        self.failures = 0

    def next_ms(self) -> float:
        """The next wait, in milliseconds."""
        delay_ms = min(self._most_ms, self._first_ms * float(1 << min(self.failures, 20)))
        self.failures += 1
        return delay_ms * self._random.uniform(0.8, 1.2)

    async def wait(self) -> None:
        """Sleeps through the clock port for the next wait."""
        await self._clock.sleep(self.next_ms())

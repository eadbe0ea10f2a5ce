"""Which late transactions hang: no coordinator has them open, so nothing ends them (KIP-664).

Late ones alone are looked at, and once a minute: a coordinator aborts its own before they are late. While one does not
answer, or a shard has no owner, what was found last stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Callable
from typing import Final

from tailrace.clock import Clock
from tailrace.net.client import Disconnected
from tailrace.wire.malformed import Malformed
from tailrace_broker.transactions.coordinated import AllCoordinators, coordinated
from tailrace_broker.transactions.open_transactions import OpenTransaction, Place

_LOOK_MS: Final = 60_000
_MOST_LATE: Final = 1_000


class HangingTransactions:
    """Of the partitions led here."""

    def __init__(
        self, opened: Callable[[], AsyncIterable[list[OpenTransaction]]], coordinators: AllCoordinators, clock: Clock
    ) -> None:
        """opened: the open transactions of one partition after the other."""
        self._opened = opened
        self._coordinators = coordinators
        self._clock = clock
        self.found: frozenset[Place] = frozenset()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_MS)
            await self.look()

    async def look(self) -> None:
        """Takes up what hangs now."""
        late = (await self._late())[:_MOST_LATE]
        try:
            producer_ids = sorted({place.producer_id for place in late})
            known = await coordinated(self._coordinators, producer_ids) if late else {}
        except (Disconnected, TimeoutError, Malformed):
            return
        self.found = frozenset(place for place in late if place not in known)

    def by_partition(self) -> list[tuple[str, int, int]]:
        """(topic, partition, transactions that hang there)."""
        counted = Counter((place.topic, place.partition) for place in self.found)
        return [(topic, index, count) for (topic, index), count in sorted(counted.items())]

    async def _late(self) -> list[Place]:
        found = []
        async for rows in self._opened():
            found += [one.place for one in rows if one.is_late]
        return found

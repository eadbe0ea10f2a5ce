"""Who follows whom on this broker: fetchers by leader, kept up with the image, and the watch over lagging followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.net.backoff import Backoff
from tailrace_broker.partitions.topics import Changes
from tailrace_broker.replication.fetcher import FetcherParts, ReplicaFetcher
from tailrace_broker.replication.isr import IsrUpdates

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics


class Replicas:
    """Replication's shell on one broker."""

    def __init__(
        self, topics: Topics, isr: IsrUpdates, parts: FetcherParts, new_backoff: Callable[[], Backoff]
    ) -> None:
        self._topics = topics
        self._isr = isr
        self._parts = parts
        self._new_backoff = new_backoff
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._followed: dict[Partition, ReplicaFetcher] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Runs until cancelled; what the image said so far is taken up first."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._isr.run())
            group.create_task(self._watch_lag())
            async for partition in self._topics.each():
                self.on_changes(Changes([partition], [], [], more=True))
            self.on_changes(Changes([], [], []))

    def on_changes(self, changes: Changes) -> None:
        """Follows leaders where the image says they are.

        A fetch that waits for data is begun again once for all that an image brings: it costs a connection.
        """
        if self._group is None:
            return
        for partition in changes.deleted:
            self._unfollow(partition)
        for partition in changes.moved:
            self._unfollow(partition)
            if partition.following:
                fetcher = self._fetcher(partition.leader)
                self._followed[partition] = fetcher
                fetcher.add(partition)
        if not changes.more:
            for fetcher in self._fetchers.values():
                fetcher.fetch_added()

    def _unfollow(self, partition: Partition) -> None:
        fetcher = self._followed.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            assert self._group is not None
            fetcher = ReplicaFetcher(self._parts, leader_id, self._new_backoff())
            self._fetchers[leader_id] = fetcher
            self._group.create_task(fetcher.run())
        return fetcher

    async def _watch_lag(self) -> None:
        """Twice in replica.lag.time.max.ms, as Kafka: who has not caught up for that long leaves the ISR."""
        while True:
            await self._parts.clock.sleep(self._topics.node.replica_lag_time_max_ms / 2)
            async for partition in self._topics.each():
                if partition.leading is None:
                    continue
                change = partition.propose_isr()
                if change is not None:
                    self._isr.propose(partition, change)

    # -- figures -----------------------------------------------------------------------------------------------------

    @property
    def followed_count(self) -> int:
        """Partitions that are fetched from their leaders."""
        return len(self._followed)

    def max_lag(self) -> int:
        """Kafka's MaxLag: how many committed records the furthest behind followed partition lacks, as far as known."""
        return max((fetcher.max_lag() for fetcher in self._fetchers.values()), default=0)

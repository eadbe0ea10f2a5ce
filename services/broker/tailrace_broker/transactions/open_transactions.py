"""The transactions that are open in the partitions led here, and which of them are late (KIP-664)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.partitions.counts import PartitionCounts, counted
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import Topics

_LATE_MS: Final = 5 * 60_000  # beyond transaction.max.timeout.ms, as in Kafka


class Place(NamedTuple):
    """Where a transaction is open: a producer has one at a time in a partition."""

    topic: str
    partition: int
    producer_id: int


class OpenTransaction(NamedTuple):
    """last_timestamp_ms is its last record's own."""

    place: Place
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int
    is_late: bool


def late_after_ms(config: Config) -> int:
    """For so long a producer with an open transaction may be silent."""
    return int(config.transaction_max_timeout_ms) + _LATE_MS


class LedTransactions:
    """Of one broker."""

    def __init__(self, topics: Topics, config: DynamicBrokerConfig, clock: Clock) -> None:
        self._topics = topics
        self._config = config
        self._clock = clock

    async def by_partition(self) -> AsyncIterator[list[OpenTransaction]]:
        """Of each partition that is led here; a log that was not used since the start is not opened for it."""
        now_ms, late_ms = self._clock.wall_ms(), late_after_ms(self._config.current)
        async for partition in self._topics.each():
            if partition.opened is not None and partition.leader == self._topics.node_id:
                yield _of(partition, now_ms, late_ms)

    def count(self) -> PartitionCounts:
        """Partitions and their open transactions, for the metrics."""
        late_ms = late_after_ms(self._config.current)
        return counted(self._topics.partitions(), self._topics.node_id, self._clock.wall_ms(), late_ms)


def _of(partition: Partition, now_ms: float, late_ms: int) -> list[OpenTransaction]:
    assert partition.opened is not None
    return [
        OpenTransaction(
            Place(partition.topic, partition.index, producer_id),
            entry.producer_epoch,
            entry.current_txn_first_offset,
            entry.last_timestamp,
            now_ms - entry.last_timestamp > late_ms,
        )
        for producer_id, entry in partition.opened.producers.open_transactions()
    ]

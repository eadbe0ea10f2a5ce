"""What the metrics say of all partitions of a broker, counted in one go over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tailrace_broker.partitions.partition import Partition

MOST_TOLD: Final = 1000  # partitions with open transactions that the metrics name


@dataclass(slots=True)
class PartitionCounts:
    """How many there are of each kind, in the words of Kafka's ReplicaManager.

    transactions: (topic, partition, open, late) of partitions with open transactions; those with late ones first.
    """

    replicas: int = 0
    led: int = 0
    offline: int = 0
    under_replicated: int = 0  # led here, and the ISR lacks a replica
    under_min_isr: int = 0  # led here, and the ISR is smaller than min.insync.replicas
    at_min_isr: int = 0  # led here: acks=all is refused with the next replica that falls out
    open_transactions: int = 0  # one that writes to two partitions counts twice
    with_late_transactions: int = 0  # partitions, whose transaction should have been ended long ago (KIP-664)
    transactions: list[tuple[str, int, int, int]] = field(default_factory=list)

    def add(self, partition: Partition, node_id: int) -> None:
        """Counts one more, but for its transactions."""
        self.replicas += 1
        self.led += partition.leader == node_id
        self.offline += partition.offline
        leading = partition.leading
        if leading is not None:
            self.under_replicated += len(leading.isr) < len(partition.replicas)
            self.under_min_isr += not partition.enough_replicas
            self.at_min_isr += len(leading.isr) == leading.min_isr(partition.min_isr)

    def add_transactions(self, partition: Partition, now_ms: int, late_ms: int) -> None:
        """Counts those that are open in the log here; a log that nobody opened yet has none to tell of."""
        log = partition.opened
        if log is None or not (count := len(log.producers.transactions)):
            return
        late = log.producers.late_transactions(now_ms, late_ms)
        self.open_transactions += count
        self.with_late_transactions += late > 0
        self.transactions.append((partition.topic, partition.index, count, late))


def counted(partitions: Iterable[Partition], node_id: int, now_ms: int, late_ms: int) -> PartitionCounts:
    """Counts them, at 0.2 to 0.4 microseconds each; late_ms: for how long a transaction may be open."""
    counts = PartitionCounts()
    for partition in partitions:
        counts.add(partition, node_id)
        counts.add_transactions(partition, now_ms, late_ms)
    counts.transactions = sorted(counts.transactions, key=lambda row: -row[3])[:MOST_TOLD]
    return counts

"""The metrics of partitions and their transactions, in the words of Kafka's ReplicaManager; counted when scraped."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace_broker.partitions.counts import PartitionCounts

_LABELS = ["topic", "partition"]


class PartitionMetrics(Collector):
    """Counts in one loop: a page that waits for turns beside dozens of long requests comes too late for its reader."""

    def __init__(
        self,
        registry: CollectorRegistry,
        count: Callable[[], PartitionCounts],
        hanging: Callable[[], list[tuple[str, int, int]]],
    ) -> None:
        """hanging: (topic, partition, transactions that hang there)."""
        self._count = count
        self._hanging = hanging
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Counts everything now."""
        counts = self._count()
        figures = (
            ("partitions", "Partitions with a replica here", counts.replicas),
            ("leaders", "Partitions led here", counts.led),
            ("offline_replicas", "Partitions with a replica here on a log directory that failed", counts.offline),
            ("under_replicated_partitions", "Led partitions whose ISR lacks a replica", counts.under_replicated),
            ("under_min_isr_partitions", "Led partitions under min.insync.replicas", counts.under_min_isr),
            ("at_min_isr_partitions", "Led partitions at min.insync.replicas", counts.at_min_isr),
            (
                "partitions_with_late_transactions",
                "Partitions with a transaction that is open for too long (KIP-664)",
                counts.with_late_transactions,
            ),
            ("ongoing_transactions", "Open transactions in all partitions here", counts.open_transactions),
        )
        found = [GaugeMetricFamily(f"tailrace_{name}", text, value=value) for name, text, value in figures]
        return [*found, *self._by_partition(counts)]

    def _by_partition(self, counts: PartitionCounts) -> list[Metric]:
        opened = GaugeMetricFamily(
            "tailrace_open_transactions", "Transactions that are open in the log here.", labels=_LABELS
        )
        late = GaugeMetricFamily(
            "tailrace_late_transactions", "Those that should have been ended long ago (KIP-664).", labels=_LABELS
        )
        for topic, index, open_count, late_count in counts.transactions:
            opened.add_metric([topic, str(index)], open_count)
            if late_count:
                late.add_metric([topic, str(index)], late_count)
        hanging = GaugeMetricFamily(
            "tailrace_hanging_transactions", "Late ones that no coordinator has open (KIP-664).", labels=_LABELS
        )
        for topic, index, count in self._hanging():
            hanging.add_metric([topic, str(index)], count)
        return [opened, late, hanging]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: what is collected depends on the partitions."""
        return []

"""The quota service's metrics, in the words of Kafka's quota MBeans; gauges are read when scraped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.quota.entity import QuotaKind
from tailrace.quota.leases import Demand


def _none() -> int:
    return 0


class QuotaMetrics(Collector):
    """Counts per request, reads the store at every scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.clients: Callable[[], int] = _none
        self._requests = 0
        self._leases = 0
        self._used_bytes = dict.fromkeys(QuotaKind, 0.0)
        registry.register(self)

    def acquired(self, demands: Sequence[Demand]) -> None:
        self._requests += 1
        self._leases += len(demands)
        for demand in demands:
            self._used_bytes[demand.kind] += demand.used_bytes

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        used = CounterMetricFamily("tailrace_quota_bytes", "Bytes charged to limited clients", labels=["kind"])
        for kind, size_bytes in self._used_bytes.items():
            used.add_metric([kind.name.lower()], size_bytes)
        return [
            GaugeMetricFamily("tailrace_quota_clients", "Limited clients with leases", value=self.clients()),
            CounterMetricFamily("tailrace_acquire_lease_requests", "AcquireLease requests", value=self._requests),
            CounterMetricFamily("tailrace_leases_granted", "Leases given or renewed", value=self._leases),
            used,
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []

"""What the unfinished requests of a role hold, in the words of Kafka's MBeans (MemoryPoolUsed, MemoryPoolAvailable)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.net.limits.request_memory import RequestMemory


class RequestMemoryMetrics(Collector):
    """Read when scraped."""

    def __init__(self, registry: CollectorRegistry, memory: RequestMemory) -> None:
        self._memory = memory
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        memory = self._memory
        available = max(0, memory.max_bytes - memory.used_bytes) if memory.max_bytes >= 0 else float("inf")
        return [
            GaugeMetricFamily(
                "tailrace_memory_pool_used", "Bytes held for requests that are not whole.", value=memory.used_bytes
            ),
            GaugeMetricFamily(
                "tailrace_memory_pool_available", "What is left of queued.max.request.bytes.", value=available
            ),
            GaugeMetricFamily(
                "tailrace_memory_pool_queue_size", "Requests that wait for memory.", value=memory.waiting_count
            ),
            CounterMetricFamily(
                "tailrace_memory_pool_waits", "Requests that had to wait for memory.", value=memory.waited_count
            ),
            CounterMetricFamily(
                "tailrace_memory_pool_closed_connections",
                "Connections closed because they were too slow while others waited.",
                value=memory.gave_way_count,
            ),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []

"""The metrics of a role's memory, in the words of Kafka's MBeans (MemoryPoolUsed, MemoryPoolAvailable)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory


class RoleMemoryMetrics(Collector):
    """Read when scraped."""

    def __init__(self, registry: CollectorRegistry, memory: RoleMemory) -> None:
        self._memory = memory
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        return [*_of_requests(self._memory.requests), *_of_answers(self._memory.answers)]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _of_requests(memory: RequestMemory) -> list[Metric]:
    available = max(0, memory.max_bytes - memory.used_bytes) if memory.max_bytes >= 0 else float("inf")
    return [
        GaugeMetricFamily(
            "tailrace_memory_pool_used", "Bytes held for requests that are not whole.", value=memory.used_bytes
        ),
        GaugeMetricFamily(
            "tailrace_memory_pool_available", "What is left of queued.max.request.bytes.", value=available
        ),
        *_of_waiting("memory_pool", "Requests", "they were too slow", memory),
    ]


def _of_answers(memory: AnswerMemory) -> list[Metric]:
    available = max(0, memory.max_bytes - memory.held_bytes)
    return [
        GaugeMetricFamily(
            "tailrace_response_memory_pool_used", "Bytes held for large responses.", value=memory.held_bytes
        ),
        GaugeMetricFamily(
            "tailrace_response_memory_pool_available", "Bytes that are left for large responses.", value=available
        ),
        *_of_waiting("response_memory_pool", "Responses", "their responses were not taken", memory),
    ]


def _of_waiting(pool: str, what: str, why: str, memory: RequestMemory | AnswerMemory) -> list[Metric]:
    return [
        GaugeMetricFamily(f"tailrace_{pool}_queue_size", f"{what} that wait for memory.", value=memory.waiting_count),
        CounterMetricFamily(
            f"tailrace_{pool}_waits", f"{what} that had to wait for memory.", value=memory.waited_count
        ),
        CounterMetricFamily(
            f"tailrace_{pool}_closed_connections",
            f"Connections closed because {why} while others waited.",
            value=memory.gave_way_count,
        ),
    ]

"""The coordinator's metrics, in the words of Kafka's group-coordinator-metrics; gauges are read when scraped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.shards.kind import Gauge
from tailrace_coordinator.shards.runtime import CoordinatorRuntime


class CoordinatorMetrics(Collector):
    """Reads the shards of every kind at every scrape."""

    def __init__(self, registry: CollectorRegistry, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        coordinator = self._coordinator
        runtimes = list(coordinator.runtimes.values())
        gauges = [*_of_the_host(runtimes), *(gauge for runtime in runtimes for gauge in _of_the_kind(runtime))]
        waiting = Gauge(
            "transaction_markers_waiting", "Markers that are in no partition yet", coordinator.markers.waiting_rows
        )
        return [
            *_families([*gauges, waiting]),
            CounterMetricFamily("tailrace_offset_commit_count", "Offsets committed", value=coordinator.offset_commits),
            CounterMetricFamily(
                "tailrace_offset_deletion_count", "Offsets deleted", value=coordinator.offset_deletions
            ),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _of_the_host(runtimes: Sequence[CoordinatorRuntime]) -> list[Gauge]:
    machines = [machine for runtime in runtimes for machine in runtime.machines()]
    loading = sum(machine is None for machine in machines)
    load_time_ms = max(runtime.partition_load_time_ms for runtime in runtimes)
    return [
        Gauge("num_partitions", "Shards owned", len(machines)),
        Gauge("num_partitions_loading", "Shards owned and not loaded", loading),
        Gauge("partition_load_time_seconds", "Time the last load took", load_time_ms / 1000),
    ]


def _of_the_kind(runtime: CoordinatorRuntime) -> Iterable[Gauge]:
    return runtime.kind.gauges(list(runtime.loaded_machines()))


def _families(gauges: Iterable[Gauge]) -> Iterable[GaugeMetricFamily]:
    families: dict[str, GaugeMetricFamily] = {}
    for gauge in gauges:
        family = families.get(gauge.name)
        if family is None:
            name = f"tailrace_{gauge.name}"
            family = families[gauge.name] = GaugeMetricFamily(name, gauge.text, labels=list(gauge.labels))
        family.add_metric(list(gauge.labels.values()), gauge.value)
    return families.values()

"""The coordinator's metrics, in the words of Kafka's group-coordinator-metrics; gauges are read when scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace_coordinator.groups.classic.group import GroupState
from tailrace_coordinator.groups.machine import GroupMachine

_STATES = tuple(state for state in GroupState if state is not GroupState.DEAD)


class CoordinatorMetrics(Collector):
    """Counts per request and reads the machines at every scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.offset_commits = 0
        self.offset_deletions = 0
        self.partition_load_time_ms = 0.0
        self.machines: Callable[[], Iterable[GroupMachine | None]] = tuple
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        machines = list(self.machines())
        loaded = [machine for machine in machines if machine is not None]
        groups = [group for machine in loaded for group in machine.groups.values()]
        states = Counter(group.state for group in groups)
        by_state = GaugeMetricFamily("tailrace_group_count", "Groups by state", labels=["state"])
        for state in _STATES:
            by_state.add_metric([state.value], states[state])
        return [
            by_state,
            _gauge("num_partitions", "Shards owned", len(machines)),
            _gauge("num_partitions_loading", "Shards owned and not loaded", len(machines) - len(loaded)),
            _gauge("partition_load_time_ms", "Time the last load took", self.partition_load_time_ms),
            _gauge("member_count", "Members of all groups", sum(len(group.members) for group in groups)),
            _gauge("offset_count", "Committed offsets", sum(len(machine.offsets) for machine in loaded)),
            CounterMetricFamily("tailrace_offset_commit_count", "Offsets committed", value=self.offset_commits),
            CounterMetricFamily("tailrace_offset_deletion_count", "Offsets deleted", value=self.offset_deletions),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tailrace_{name}", text, value=value)

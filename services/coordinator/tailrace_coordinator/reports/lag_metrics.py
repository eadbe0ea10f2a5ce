"""The lag of groups by topic, as the last look of the reports found it. Its age goes on between looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.kafka.lag import lag_seconds
from tailrace_coordinator.reports.committed_offsets import GroupOffset

SERIES_MAX = 1_000
_LABELS = ("group", "topic")


class LagMetrics(Collector):
    """At most SERIES_MAX pairs of group and topic: the first by name, so that series do not come and go with a lag."""

    def __init__(
        self, registry: CollectorRegistry, rows: Callable[[], Sequence[GroupOffset]], wall_ms: Callable[[], int]
    ) -> None:
        self._rows = rows
        self._wall_ms = wall_ms
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Adds up the partitions whose lag is known."""
        now_ms = self._wall_ms()
        lags: dict[tuple[str, str], int] = {}
        ages: dict[tuple[str, str], float] = {}
        for row in self._rows():
            if row.lag is None:
                continue
            pair = (row.offset.group_id, row.offset.topic)
            lags[pair] = lags.get(pair, 0) + row.lag
            age = lag_seconds(row.lag, row.next_timestamp_ms, now_ms)
            if age is not None:
                ages[pair] = max(age, ages.get(pair, 0.0))
        pairs = sorted(lags)[:SERIES_MAX]
        omitted = GaugeMetricFamily(
            "tailrace_group_lag_omitted_series", "Pairs of group and topic beyond the first 1,000, without a lag here"
        )
        omitted.add_metric((), len(lags) - len(pairs))
        return [
            _family("group_lag", "Records that a group is behind", ((pair, lags[pair]) for pair in pairs)),
            _family(
                "group_lag_seconds",
                "Age of the oldest record that a group reads next",
                ((pair, ages[pair]) for pair in pairs if pair in ages),
            ),
            omitted,
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _family(name: str, text: str, samples: Iterable[tuple[tuple[str, str], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"tailrace_{name}", text, labels=_LABELS)
    for pair, value in samples:
        family.add_metric(pair, value)
    return family

"""The worker's metrics, of each topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class TopicMetrics:
    """What the worker of one topic counts."""

    def __init__(self, metrics: TableMetrics, topic: str) -> None:
        self._metrics = metrics
        self._topic = topic

    def committed(self, rows: int, letters: int, seconds: float) -> None:
        self._metrics.rows.labels(self._topic).inc(rows)
        self._metrics.letters.labels(self._topic).inc(letters)
        self._metrics.commit.labels(self._topic).observe(seconds)

    def failed(self) -> None:
        self._metrics.failures.labels(self._topic).inc()

    def lost(self, offsets: int) -> None:
        self._metrics.lost.labels(self._topic).inc(offsets)

    def watch_lag(self, lag_seconds: Callable[[], float]) -> None:
        self._metrics.lag.labels(self._topic).set_function(lag_seconds)

    def forget(self) -> None:
        """The topic is no table any more."""
        for metric in self._metrics.all:
            metric.remove(self._topic)


class TableMetrics:
    """The metrics of all topics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        of_topic = ["topic"]
        self.rows = Counter("tailrace_table_rows", "Records that became rows.", of_topic, registry=registry)
        self.letters = Counter("tailrace_table_dead_letters", "Records that made no row.", of_topic, registry=registry)
        self.failures = Counter(
            "tailrace_table_failures",
            "Failures after which the worker of a topic started again.",
            of_topic,
            registry=registry,
        )
        self.lost = Counter(
            "tailrace_table_offsets_lost",
            "Offsets that the log had no more when they were read.",
            of_topic,
            registry=registry,
        )
        self.lag = Gauge(
            "tailrace_table_lag_seconds",
            "Age of the oldest record that is read and not committed; without one, of the last answer to a fetch.",
            of_topic,
            registry=registry,
        )
        self.commit = Histogram(
            "tailrace_table_commit_seconds", "Time of a commit.", of_topic, buckets=_BUCKETS, registry=registry
        )
        self.all = (self.rows, self.letters, self.failures, self.lost, self.lag, self.commit)

    def of(self, topic: str) -> TopicMetrics:
        return TopicMetrics(self, topic)

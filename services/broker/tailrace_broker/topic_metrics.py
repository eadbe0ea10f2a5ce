"""The traffic and the size of topics, in the words of Kafka's BrokerTopicMetrics and Log; read when scraped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace_broker.partitions.topics import TopicRow

MOST_TOPICS: Final = 1_000  # which the page names, by name: four series each


class BrokerTopicMetrics(Collector):
    """Of the topics that have a replica here."""

    def __init__(self, registry: CollectorRegistry, topics: Mapping[bytes, TopicRow]) -> None:
        self._topics = topics
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Reads everything now; of topics that were deleted nothing is left."""
        rows = [(name, row) for name, row in sorted(self._topics.items()) if row.partitions]
        labels = ["topic"]
        bytes_in = CounterMetricFamily("tailrace_topic_bytes_in", "Bytes of appended batches.", labels=labels)
        bytes_out = CounterMetricFamily("tailrace_topic_bytes_out", "Bytes of fetched batches.", labels=labels)
        messages = CounterMetricFamily("tailrace_topic_messages_in", "Appended records.", labels=labels)
        size = GaugeMetricFamily("tailrace_topic_size_bytes", "Bytes of the logs that are open here.", labels=labels)
        for key, row in rows[:MOST_TOPICS]:
            name = [key.decode()]
            bytes_in.add_metric(name, row.traffic.bytes_in)
            bytes_out.add_metric(name, row.traffic.bytes_out)
            messages.add_metric(name, row.traffic.messages_in)
            size.add_metric(name, _size_bytes(row))
        yield from (bytes_in, bytes_out, messages, size)
        yield GaugeMetricFamily(
            "tailrace_topics_without_metrics", "Topics that are left out.", value=max(0, len(rows) - MOST_TOPICS)
        )

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: what is collected depends on the topics."""
        return []


def _size_bytes(row: TopicRow) -> int:
    return sum(partition.opened.size_bytes for partition in row.partitions.values() if partition.opened is not None)

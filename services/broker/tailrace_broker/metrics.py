"""The broker's metrics, in Kafka's MBean words. Counted on the hot path as plain ints, read when scraped."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class BrokerMetrics(Collector):
    """gauges: name -> (help, read); filled by gauges.py. The plain ints are counted up where the work is done."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.failed_produce_requests = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.failed_isr_updates = 0
        self.held_produce_requests = 0
        self.verifications = 0
        self.verification_failures = 0
        self.verification_time_ms = 0.0
        self.counters: dict[str, tuple[str, Callable[[], float]]] = {
            "bytes_in": ("Bytes of appended record batches, as clients sent them", lambda: self.bytes_in),
            "bytes_out": ("Bytes of fetched record batches", lambda: self.bytes_out),
            "messages_in": ("Appended records", lambda: self.messages_in),
            "failed_produce_requests": (
                "Partitions of produce requests that were refused",
                lambda: self.failed_produce_requests,
            ),
            "replication_bytes_in": ("Bytes fetched from leaders", lambda: self.replication_bytes_in),
            "replication_bytes_out": ("Bytes fetched by followers", lambda: self.replication_bytes_out),
            "isr_shrinks": ("Changes that dropped a replica from an ISR", lambda: self.isr_shrinks),
            "isr_expands": ("Changes that added a replica to an ISR", lambda: self.isr_expands),
            "failed_isr_updates": ("Changes of an ISR the controller refused", lambda: self.failed_isr_updates),
            "transaction_verifications": (
                "Answers of transaction coordinators to partition leaders (KIP-890)",
                lambda: self.verifications,
            ),
            "transaction_verification_failures": (
                "Partitions that were refused, or could not be asked about",
                lambda: self.verification_failures,
            ),
            "transaction_verification_time_seconds": (
                "Time that these answers took, in total",
                lambda: self.verification_time_ms / 1000,
            ),
        }
        registry.register(self)

    def verified(self, took_ms: float, *, failures: int) -> None:
        """A transaction's coordinator has answered; failures: partitions for which it did not agree."""
        self.verifications += 1
        self.verification_failures += failures
        self.verification_time_ms += took_ms

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        found: list[Metric] = []
        for name, (text, read) in self.gauges.items():
            found.append(GaugeMetricFamily(f"tailrace_{name}", text, value=read()))
        for name, (text, read) in self.counters.items():
            found.append(CounterMetricFamily(f"tailrace_{name}", text, value=read()))
        return found

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: gauges are added after registration."""
        return []

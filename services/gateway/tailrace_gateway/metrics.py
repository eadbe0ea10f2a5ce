"""The gateway's metrics, in Kafka's MBean words; counted as plain ints by the connections, read when scraped."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.wire.apis import ApiKey
from tailrace_gateway.gateway import Gateway


class GatewayMetrics(Collector):
    """Requests by API, bytes in and out, connections, and how old the image is."""

    def __init__(self, registry: CollectorRegistry, gateway: Gateway, stale: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._stale = stale
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        gateway = self._gateway
        came, went = gateway.relayed_bytes
        for connection in gateway.connections:
            came += connection.received_bytes
            went += connection.sent_bytes
        requests = CounterMetricFamily("tailrace_requests", "Requests by API.", labels=["request"])
        for key, count in enumerate(gateway.requests):
            if count:
                requests.add_metric([ApiKey(key).name.title().replace("_", "")], count)
        return [
            requests,
            CounterMetricFamily("tailrace_bytes_in", "Bytes from clients.", value=came),
            CounterMetricFamily("tailrace_bytes_out", "Bytes to clients.", value=went),
            CounterMetricFamily(
                "tailrace_connection_close", "Connections that ended.", value=gateway.closed_connections
            ),
            CounterMetricFamily(
                "tailrace_throttle_time_ms", "Throttle time given to clients (KIP-219).", value=gateway.throttled_ms
            ),
            GaugeMetricFamily("tailrace_connection_count", "Open connections.", value=len(gateway.connections)),
            GaugeMetricFamily("tailrace_metadata_offset", "Last applied metadata offset.", value=gateway.image.offset),
            GaugeMetricFamily("tailrace_metadata_stale", "1 while no controller answers.", value=float(self._stale())),
            GaugeMetricFamily(
                "tailrace_active_broker_count",
                "Brokers that are not fenced.",
                value=sum(1 for _ in gateway.image.live_brokers()),
            ),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time."""
        return []

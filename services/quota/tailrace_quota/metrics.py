"""The quota service's metrics, in the words of Kafka's quota MBeans; gauges are read when scraped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.quota.entity import BROKER, CLIENT_ID, IP, UNITS, USER, QuotaKind
from tailrace.quota.leases import Demand
from tailrace.quota.usage import Used

_SHOWN_MAX = 100  # accounts with a series of their own: those with the largest share of their limit
_LABELS = ["user", "client_id", "ip", "broker", "quota"]


def _none() -> int:
    return 0


def _no_usage() -> list[Used]:
    return []


class QuotaMetrics(Collector):
    """Counts per request, reads the store at every scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.clients: Callable[[], int] = _none
        self.store_available: Callable[[], bool] = bool
        self.usage: Callable[[], list[Used]] = _no_usage
        self.scopes_differing: Callable[[], int] = _none
        self._requests = 0
        self._leases = 0
        self._used = dict.fromkeys(QuotaKind, 0.0)
        registry.register(self)

    def acquired(self, demands: Sequence[Demand]) -> None:
        self._requests += 1
        self._leases += len(demands)
        for demand in demands:
            self._used[demand.kind] += demand.used

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        used = CounterMetricFamily("tailrace_quota_bytes", "Bytes charged to limited clients", labels=["kind"])
        for kind in (QuotaKind.PRODUCE, QuotaKind.FETCH):
            used.add_metric([kind.name.lower()], self._used[kind])
        request_ms, connections = (
            self._used[QuotaKind.REQUEST] / 1000,
            self._used[QuotaKind.CONNECTION] / UNITS[QuotaKind.CONNECTION],
        )
        return [
            GaugeMetricFamily("tailrace_quota_clients", "Limited clients with leases", value=self.clients()),
            CounterMetricFamily("tailrace_acquire_lease_requests", "AcquireLease requests", value=self._requests),
            CounterMetricFamily("tailrace_leases_granted", "Leases given or renewed", value=self._leases),
            GaugeMetricFamily(
                "tailrace_lease_store_available",
                "1 while leases can be given; 0 while quota.url does not answer",
                value=float(self.store_available()),
            ),
            GaugeMetricFamily(
                "tailrace_quota_scope_differs",
                "Gateways and brokers that ask for leases with another quota.scope than this service",
                value=self.scopes_differing(),
            ),
            used,
            CounterMetricFamily(
                "tailrace_quota_request_time_seconds", "Time charged to limited clients", value=request_ms / 1000
            ),
            CounterMetricFamily("tailrace_quota_connections", "Connections of limited addresses", value=connections),
            *self._by_account(),
        ]

    def _by_account(self) -> list[Metric]:
        limit = GaugeMetricFamily("tailrace_quota_limit", "The rate that holds, in the quota's unit", labels=_LABELS)
        usage = GaugeMetricFamily("tailrace_quota_usage", "What is used of it a second", labels=_LABELS)
        throttled = GaugeMetricFamily("tailrace_quota_throttled", "1 while it is held back", labels=_LABELS)
        throttle_time = CounterMetricFamily(
            "tailrace_quota_throttle_time_seconds", "Throttle time given to it", labels=_LABELS
        )
        for used in self.usage()[:_SHOWN_MAX]:
            names = dict(used.account)
            labels = [*(names.get(kind) or "" for kind in (USER, CLIENT_ID, IP, BROKER)), used.key]
            limit.add_metric(labels, used.limit)
            usage.add_metric(labels, used.rate)
            throttled.add_metric(labels, float(used.throttled))
            throttle_time.add_metric(labels, used.throttle_time_ms / 1000)
        return [limit, usage, throttled, throttle_time]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []

"""Proven and refused internal connections, named as Kafka's MBeans (successful-, failed-authentication-total)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from tailrace.net.authentication.proof import Secret
from tailrace.net.authentication.server import Authentication


class AuthenticationMetrics(Collector):
    """Read when scraped."""

    def __init__(self, registry: CollectorRegistry, authentication: Authentication) -> None:
        self._authentication = authentication
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        known = self._authentication
        return [
            CounterMetricFamily(
                "tailrace_successful_authentication",
                "Internal TCP connections that proved the cluster's secret.",
                value=known.successful_count,
            ),
            CounterMetricFamily(
                "tailrace_failed_authentication",
                "Internal connections refused: without a proof of the cluster's secret, or of another user.",
                value=known.failed_count,
            ),
            GaugeMetricFamily(
                "tailrace_unproven_connections",
                "Internal TCP connections that have yet to prove the cluster's secret.",
                value=known.waiting_count,
            ),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def open_authentication(
    secret: Secret | None, registry: CollectorRegistry, log: FilteringBoundLogger
) -> Authentication:
    """What a role's internal listener has, and counts."""
    authentication = Authentication(secret, log)
    AuthenticationMetrics(registry, authentication)
    return authentication

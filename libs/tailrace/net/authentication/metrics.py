"""Logins and refusals of internal connections, named as Kafka's MBeans (successful-, failed-authentication-total)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.clock import Clock
from tailrace.net.authentication.secret import Secret
from tailrace.net.authentication.server import Authentication
from tailrace.net.dispatch import Service


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
                "Internal TCP connections that logged in with the cluster's secret.",
                value=known.successful_count,
            ),
            CounterMetricFamily(
                "tailrace_failed_authentication",
                "Internal connections refused: without a login with the cluster's secret, or of another user.",
                value=known.failed_count,
            ),
            GaugeMetricFamily(
                "tailrace_unproven_connections",
                "Internal TCP connections that have yet to log in.",
                value=known.waiting_count,
            ),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def with_logins(service: Service, secret: Secret | None, clock: Clock, registry: CollectorRegistry) -> Service:
    """The service of a role's internal listener, where other services log in over TCP; counted."""
    authentication = Authentication(secret, clock, service.log)
    AuthenticationMetrics(registry, authentication)
    return authentication.before(service)

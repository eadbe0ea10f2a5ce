"""Requests that were refused for want of a right: counted by API and type of resource, and named in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from tailrace.access.authorizer import Denied
from tailrace.access.resources import ResourceType
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.wire.apis import ApiKey


class Denials(Collector):
    """Of one role. The log has ten lines in ten seconds, and says how many more there were."""

    def __init__(self, registry: CollectorRegistry, log: FilteringBoundLogger, now_ms: Callable[[], float]) -> None:
        self._counts: Counter[tuple[int, ResourceType]] = Counter()
        self._lines = SeldomWarning(log, now_ms, "authorization failed")
        registry.register(self)

    def add(self, principal: str, client_host: str, api_key: int, denied: Denied) -> None:
        """A client has not that right, which this request of its needs."""
        self._counts[api_key, denied.resource_type] += 1
        self._lines.say(
            principal=principal,
            host=client_host,
            request=_request(api_key),
            operation=denied.operation.name,
            resource_type=denied.resource_type.name,
            resource=denied.name,
        )

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        family = CounterMetricFamily(
            "tailrace_denied_requests",
            "Requests, and rows of requests, that were refused for want of a right.",
            labels=["request", "resource_type"],
        )
        for (api_key, resource_type), count in sorted(self._counts.items()):
            family.add_metric([_request(api_key), resource_type.name.lower()], count)
        return [family]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _request(api_key: int) -> str:
    return ApiKey(api_key).name.title().replace("_", "")

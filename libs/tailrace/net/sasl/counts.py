"""Authentications by mechanism, named as Kafka's MBeans, read when scraped."""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import CounterMetricFamily, Metric


class SaslCounts:
    """What one listener has counted. A mechanism is one of those that are served, or `unsupported`."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._expired = 0

    def succeeded(self, mechanism: str, *, again: bool) -> None:
        """again: of a client that was authenticated before (KIP-368)."""
        self._counts["successful_sasl_reauthentication" if again else "successful_sasl_authentication", mechanism] += 1

    def failed(self, mechanism: str, *, again: bool) -> None:
        """The same of what was refused."""
        self._counts["failed_sasl_reauthentication" if again else "failed_sasl_authentication", mechanism] += 1

    def expired(self) -> None:
        """A request came after the end of its session, and its connection was closed."""
        self._expired += 1

    def collect(self) -> list[Metric]:
        """All of them; a role that serves no SASL has them too, at nothing."""
        families = []
        for name, about in _ABOUT.items():
            family = CounterMetricFamily(f"tailrace_{name}", about, labels=["mechanism"])
            for (counted, mechanism), count in sorted(self._counts.items()):
                if counted == name:
                    family.add_metric([mechanism], count)
            families.append(family)
        expired = CounterMetricFamily(
            "tailrace_expired_connections_killed",
            "Connections closed at a request after the end of their session (KIP-368).",
            value=self._expired,
        )
        return [*families, expired]


_ABOUT = {
    "successful_sasl_authentication": "Logins of clients that succeeded, by mechanism.",
    "failed_sasl_authentication": "Logins of clients that were refused, by mechanism.",
    "successful_sasl_reauthentication": "Repeated logins of connected clients that succeeded (KIP-368).",
    "failed_sasl_reauthentication": "Repeated logins of connected clients that were refused (KIP-368).",
}

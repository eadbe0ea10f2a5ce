"""How a client of Kafka connects, by the keys of Java's clients and librdkafka: for the commands."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.net.client import ClientSettings
from tailrace.net.sasl.login import login_of
from tailrace.net.tls.client_settings import client_context


def client_settings(given: Mapping[str, str], now_ms: int) -> ClientSettings:
    """Raises ConfigError; now_ms is wall time, for a certificate that has expired."""
    return ClientSettings(client_context(given, now_ms), login_of(given))

"""Listeners that other machines reach and that ask for no login: bound only where the operator says so."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.config import Config, ConfigError
from tailrace.config.hosts import is_loopback
from tailrace.net.listeners.listener import admin_listener, listeners_of


def check_listeners(config: Config, roles: Iterable[str]) -> None:
    """Raises ConfigError for a listener of the roles that is open to other machines, unless that is allowed."""
    if config.allow_insecure_listeners:
        return
    found = [text for role in roles for text in _open_listeners(config, role)]
    if found:
        raise ConfigError(
            f"{'; '.join(dict.fromkeys(found))}: without TLS and a login, every machine that reaches this one could "
            "use it. Listen on the loopback, have clients log in (tailrace up --secure), or open it in a network that "
            "you trust with --insecure (allow.insecure.listeners=true)."
        )


def _open_listeners(config: Config, role: str) -> Iterable[str]:
    listeners = listeners_of(config)
    key = "gateway.listen=" if len(listeners) == 1 and "listeners" not in config.static else ""
    if role == "gateway" or (role == "broker" and config.gateway_advertise == "brokers"):
        for one in listeners:
            if one.open_hosts and not one.is_safe:
                yield f"{key or f'{one.name}://'}{','.join(one.open_hosts)} (Kafka clients)"
    admin = admin_listener(config)
    if role == "gateway" and admin.open_hosts and not admin.is_safe:
        yield f"{key or 'admin.port at '}{','.join(admin.open_hosts)} (REST API and console)"
    if not (is_loopback(config.health_listen) or config.health_open):
        yield f"health.listen={config.health_listen} (health and metrics, which health.open=true opens)"

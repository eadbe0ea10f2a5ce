"""Listeners that other machines reach and that ask for no login: bound only where the operator says so."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.config import Config, ConfigError
from tailrace.config.hosts import is_loopback
from tailrace.kafka.security_protocols import encrypts, logs_in


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
    hosts = ",".join(host for host in config.gateway_listen if not is_loopback(host))
    serves_clients = role == "gateway" or (role == "broker" and config.gateway_advertise == "brokers")
    if hosts and serves_clients and not _is_safe(config, config.gateway_security_protocol):
        yield f"gateway.listen={hosts} (Kafka clients)"
    if hosts and role == "gateway" and not _is_safe(config, admin_protocol(config)):
        yield f"gateway.listen={hosts} (REST API and console)"
    if not (is_loopback(config.health_listen) or config.health_open):
        yield f"health.listen={config.health_listen} (health and metrics, which health.open=true opens)"


def admin_protocol(config: Config) -> str:
    """What the admin port speaks."""
    return config.admin_security_protocol or config.gateway_security_protocol


def has_login(config: Config, protocol: str) -> bool:
    """Whether clients of a listener must log in, or show a certificate."""
    return logs_in(protocol) or (encrypts(protocol) and config.ssl_client_auth == "required")


def _is_safe(config: Config, protocol: str) -> bool:
    return encrypts(protocol) and has_login(config, protocol)

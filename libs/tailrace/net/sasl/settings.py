"""A listener's SASL by Kafka's keys; a fault in them is one sentence, with which a start ends."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.access.sasl import SERVED
from tailrace.config import Config, ConfigError
from tailrace.kafka.security_protocols import logs_in
from tailrace.net.session import AUTHENTICATION_MS


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """mechanisms: without any, clients do not log in."""

    mechanisms: tuple[str, ...] = ()
    max_receive_bytes: int = 524_288
    failed_delay_ms: int = 100
    max_reauth_ms: int = 0
    deadline_ms: float = AUTHENTICATION_MS  # of a login, from a connection's begin


def sasl_settings(config: Config) -> SaslSettings:
    """Those of the clients' listeners (gateway.security.protocol). Raises ConfigError."""
    if not logs_in(config.gateway_security_protocol):
        return SaslSettings()
    mechanisms = config.sasl_enabled_mechanisms
    unknown = [name for name in mechanisms if name not in SERVED]
    if unknown or not mechanisms:
        raise ConfigError(
            f"gateway.security.protocol={config.gateway_security_protocol} needs sasl.enabled.mechanisms with one or "
            f"more of {', '.join(SERVED)}, and it is {','.join(mechanisms) or 'empty'}."
        )
    return SaslSettings(
        mechanisms,
        config.sasl_server_max_receive_size,
        config.connection_failed_authentication_delay_ms,
        config.connections_max_reauth_ms,
    )

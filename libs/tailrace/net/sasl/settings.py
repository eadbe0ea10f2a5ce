"""A listener's SASL by Kafka's keys; a fault in them is one sentence, with which a start ends."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.access.oauthbearer.server import OAUTHBEARER
from tailrace.access.sasl import SERVED
from tailrace.config import Config, ConfigError
from tailrace.kafka.security_protocols import logs_in
from tailrace.net.session import AUTHENTICATION_MS


@dataclass(frozen=True, slots=True)
class OAuthBearerSettings:
    """What a token must say, and where the keys are that sign it; None and () are any issuer and any audience."""

    jwks_url: str
    issuer: str | None
    audiences: tuple[str, ...]
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: int = 30
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """mechanisms: without any, clients do not log in."""

    mechanisms: tuple[str, ...] = ()
    max_receive_bytes: int = 524_288
    failed_delay_ms: int = 100
    max_reauth_ms: int = 0
    oauthbearer: OAuthBearerSettings | None = None  # with that mechanism
    deadline_ms: float = AUTHENTICATION_MS  # of a login, from a connection's begin


def enabled_mechanisms(config: Config, protocol: str, what: str) -> tuple[str, ...]:
    """Those of a listener with that protocol; none where clients do not log in. Raises ConfigError; what: names it."""
    if not logs_in(protocol):
        return ()
    mechanisms = tuple(config.sasl_enabled_mechanisms)
    unknown = [name for name in mechanisms if name not in SERVED]
    if unknown or not mechanisms:
        raise ConfigError(
            f"{what} needs sasl.enabled.mechanisms with one or more of {', '.join(SERVED)}, and it is "
            f"{','.join(mechanisms) or 'empty'}."
        )
    return mechanisms


def sasl_settings(config: Config, mechanisms: tuple[str, ...]) -> SaslSettings:
    """Those of a role whose listeners take these mechanisms. Raises ConfigError."""
    if not mechanisms:
        return SaslSettings()
    return SaslSettings(
        mechanisms,
        config.sasl_server_max_receive_size,
        config.connection_failed_authentication_delay_ms,
        config.connections_max_reauth_ms,
        _oauthbearer(config) if OAUTHBEARER in mechanisms else None,
    )


def _oauthbearer(config: Config) -> OAuthBearerSettings:
    """Tokens of any issuer, or for any audience, are taken only where that is said."""
    url = config.sasl_oauthbearer_jwks_endpoint_url
    issuer, audiences = config.sasl_oauthbearer_expected_issuer, tuple(config.sasl_oauthbearer_expected_audience)
    if not url:
        raise ConfigError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url: the keys that sign tokens.")
    for name, given, any_of_them in (
        ("issuer", issuer, config.sasl_oauthbearer_allow_unverified_issuer),
        ("audience", audiences, config.sasl_oauthbearer_allow_unverified_audience),
    ):
        if not given and not any_of_them:
            raise ConfigError(
                f"OAUTHBEARER needs sasl.oauthbearer.expected.{name}; sasl.oauthbearer.allow.unverified.{name}=true "
                "takes tokens that were made for others, too."
            )
    return OAuthBearerSettings(
        url,
        issuer or None,
        audiences,
        config.sasl_oauthbearer_sub_claim_name,
        config.sasl_oauthbearer_scope_claim_name,
        config.sasl_oauthbearer_clock_skew_seconds,
        config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )

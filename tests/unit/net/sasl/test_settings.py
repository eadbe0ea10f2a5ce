"""The keys of SASL, and the sentences for those that cannot be used."""

from __future__ import annotations

import pytest

from tailrace.config import Config, ConfigError
from tailrace.net.listeners.listener import listeners_of, mechanisms_of
from tailrace.net.sasl.settings import OAuthBearerSettings, SaslSettings, sasl_settings


def settings_of(given: dict[str, str]) -> SaslSettings:
    config = Config.load("gateway", overrides=given)
    return sasl_settings(config, mechanisms_of(listeners_of(config)))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_sasl_in_the_protocol_nobody_logs_in(protocol: str) -> None:
    given = {"gateway.security.protocol": protocol, "sasl.enabled.mechanisms": "PLAIN"}
    assert settings_of(given) == SaslSettings()


def test_keys_are_kafkas() -> None:
    given = {
        "gateway.security.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "sasl.server.max.receive.size": "5000",
        "connection.failed.authentication.delay.ms": "7",
        "connections.max.reauth.ms": "3600000",
    }
    expected = SaslSettings(("SCRAM-SHA-512", "PLAIN"), 5000, 7, 3_600_000)
    assert settings_of(given) == expected


@pytest.mark.parametrize("mechanisms", [None, "", "PLAIN,GSSAPI", "scram-sha-256"])
def test_a_mechanism_that_is_not_served_ends_the_start(mechanisms: str | None) -> None:
    given = {"gateway.security.protocol": "SASL_SSL"}
    if mechanisms is not None:
        given["sasl.enabled.mechanisms"] = mechanisms
    with pytest.raises(ConfigError, match=r"needs sasl\.enabled\.mechanisms with one or more of PLAIN, SCRAM-SHA-256"):
        settings_of(given)


TOKENS = {
    "gateway.security.protocol": "SASL_SSL",
    "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "kafka,other",
}


def tokens(given: dict[str, str]) -> OAuthBearerSettings | None:
    return settings_of(given).oauthbearer


def test_keys_of_tokens_are_kafkas() -> None:
    defaults = OAuthBearerSettings("https://issuer.example/keys", "https://issuer.example", ("kafka", "other"))
    assert tokens(TOKENS) == defaults
    more = {
        "sasl.oauthbearer.sub.claim.name": "client_id",
        "sasl.oauthbearer.scope.claim.name": "scp",
        "sasl.oauthbearer.clock.skew.seconds": "5",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "2",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "3",
    }
    expected = (defaults.jwks_url, defaults.issuer, defaults.audiences, "client_id", "scp", 5, 1_000, 2, 3)
    assert tokens(TOKENS | more) == OAuthBearerSettings(*expected)
    assert tokens(TOKENS | {"sasl.enabled.mechanisms": "PLAIN"}) is None


@pytest.mark.parametrize("what", ["jwks.endpoint.url", "expected.issuer", "expected.audience"])
def test_tokens_of_anyone_for_anything_are_taken_only_where_that_is_said(what: str) -> None:
    given = {key: value for key, value in TOKENS.items() if not key.endswith(what)}
    with pytest.raises(ConfigError, match=f"OAUTHBEARER needs sasl.oauthbearer.{what}"):
        tokens(given)
    anyone = {"sasl.oauthbearer.allow.unverified.issuer": "true", "sasl.oauthbearer.allow.unverified.audience": "true"}
    if what != "jwks.endpoint.url":
        assert tokens(given | anyone) is not None

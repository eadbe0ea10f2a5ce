"""The keys of SASL, and the sentences for those that cannot be used."""

from __future__ import annotations

import pytest

from tailrace.config import Config, ConfigError
from tailrace.net.sasl.settings import SaslSettings, sasl_settings


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_sasl_in_the_protocol_nobody_logs_in(protocol: str) -> None:
    given = {"gateway.security.protocol": protocol, "sasl.enabled.mechanisms": "PLAIN"}
    assert sasl_settings(Config.load("gateway", overrides=given)) == SaslSettings()


def test_keys_are_kafkas() -> None:
    given = {
        "gateway.security.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "sasl.server.max.receive.size": "5000",
        "connection.failed.authentication.delay.ms": "7",
        "connections.max.reauth.ms": "3600000",
    }
    expected = SaslSettings(("SCRAM-SHA-512", "PLAIN"), 5000, 7, 3_600_000)
    assert sasl_settings(Config.load("gateway", overrides=given)) == expected


@pytest.mark.parametrize("mechanisms", [None, "", "PLAIN,GSSAPI", "OAUTHBEARER", "scram-sha-256"])
def test_a_mechanism_that_is_not_served_ends_the_start(mechanisms: str | None) -> None:
    given = {"gateway.security.protocol": "SASL_SSL"}
    if mechanisms is not None:
        given["sasl.enabled.mechanisms"] = mechanisms
    with pytest.raises(ConfigError, match=r"needs sasl\.enabled\.mechanisms with one or more of PLAIN, SCRAM-SHA-256"):
        sasl_settings(Config.load("gateway", overrides=given))

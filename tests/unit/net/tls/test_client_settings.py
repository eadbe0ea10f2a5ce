"""TLS of the commands, by the keys of Kafka's clients."""

from __future__ import annotations

import ssl

import pytest

from support.certificates import Authority, Pair
from tailrace.config import ConfigError
from tailrace.net.tls.client_settings import client_context
from tailrace.runtime.clock import SystemClock

NOW_MS = SystemClock().wall_ms()


def test_a_plain_client_has_no_context() -> None:
    assert client_context({}, NOW_MS) is None
    assert client_context({"security.protocol": "PLAINTEXT"}, NOW_MS) is None


def test_the_host_is_checked_unless_the_algorithm_is_empty(authority: Authority, alice: Pair) -> None:
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.keystore.location": str(alice.both),
    }
    strict = client_context(given, NOW_MS)
    assert strict is not None and strict.check_hostname and strict.verify_mode is ssl.CERT_REQUIRED
    assert len(strict.get_ca_certs()) == 1
    loose = client_context({**given, "ssl.endpoint.identification.algorithm": ""}, NOW_MS)
    assert loose is not None and not loose.check_hostname and loose.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("given", [{"security.protocol": "TLS"}, {"ssl.truststore.location": "/nowhere.pem"}])
def test_what_cannot_be_used_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        client_context({"security.protocol": "SSL", **given}, NOW_MS)

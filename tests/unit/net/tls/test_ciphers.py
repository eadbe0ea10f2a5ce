"""Names of cipher suites: Kafka's are IANA's, OpenSSL has its own."""

from __future__ import annotations

import ssl

import pytest

from tailrace.net.tls.ciphers import older_suites, openssl_name

NAMES = {
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
}


@pytest.mark.parametrize(("suite", "name"), NAMES.items())
def test_openssl_knows_the_name(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(older_suites([suite]))
    assert name in {cipher["name"] for cipher in context.get_ciphers()}

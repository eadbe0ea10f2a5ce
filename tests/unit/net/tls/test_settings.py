"""What a listener's TLS settings must be; every fault is one sentence, and none holds a secret."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from support.certificates import Authority, Pair, openssl
from tailrace.config import Config, ConfigError
from tailrace.config.config import environment_name
from tailrace.config.definitions import DEFINITIONS
from tailrace.net.tls.settings import TlsSettings, listener_settings, server_context
from tailrace.runtime.clock import SystemClock

NOW_MS = SystemClock().wall_ms()
PASSWORD = "hunter2"


@pytest.fixture
def good(server: Pair, authority: Authority) -> TlsSettings:
    return TlsSettings(keystore_location=str(server.both), truststore_location=str(authority.certificate))


@pytest.fixture
def encrypted(server: Pair, tmp_path: Path) -> str:
    """The server's key under a password, with its certificate."""
    file = tmp_path / "encrypted.pem"
    key = openssl("pkcs8", "-topk8", "-in", server.key, "-passout", f"pass:{PASSWORD}")
    file.write_text(key + server.certificate.read_text())
    return str(file)


def refusal(settings: TlsSettings) -> str:
    with pytest.raises(ConfigError) as refused:
        server_context(settings, NOW_MS)
    said = str(refused.value)
    assert said.endswith(".") and PASSWORD not in said and "BEGIN" not in said
    return said


def test_a_plain_listener_has_no_settings() -> None:
    assert listener_settings(Config.load("gateway", None, {}, {}), "PLAINTEXT") is None


def test_the_keys_of_kafka_make_a_context(server: Pair, authority: Authority) -> None:
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key.read_text(),
        "ssl.keystore.certificate.chain": server.certificate.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate.read_text(),
        "ssl.client.auth": "requested",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    environ = {environment_name(DEFINITIONS[key]): value for key, value in given.items()}
    settings = listener_settings(Config.load("gateway", None, environ), "SSL")
    assert settings is not None and "PRIVATE" not in repr(settings)
    context = server_context(settings, NOW_MS)
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_password_opens_the_key(good: TlsSettings, encrypted: str) -> None:
    assert server_context(replace(good, keystore_location=encrypted, key_password=PASSWORD), NOW_MS)
    assert "ssl.key.password is not set" in refusal(replace(good, keystore_location=encrypted))
    wrong = replace(good, keystore_location=encrypted, key_password="wrong")
    assert refusal(wrong) == "ssl.key.password does not open the private key."


def test_what_does_not_fit_is_refused(good: TlsSettings, authority: Authority, alice: Pair, server: Pair) -> None:
    missing = refusal(replace(good, keystore_location="/nowhere/key.pem"))
    assert missing == "ssl.keystore.location=/nowhere/key.pem cannot be read: No such file or directory."
    assert "has no private key" in refusal(replace(good, keystore_location=str(server.certificate)))
    assert "has no certificate" in refusal(replace(good, keystore_location=str(server.key)))
    assert "needs ssl.keystore.location" in refusal(replace(good, keystore_location=None))
    mixed = TlsSettings(keystore_key=alice.key.read_text(), keystore_chain=server.certificate.read_text())
    assert "does not fit the first certificate" in refusal(mixed)
    assert "cannot both be set" in refusal(replace(mixed, keystore_location=str(server.both)))
    assert "ssl.truststore has no certificate" in refusal(replace(good, truststore_location=str(server.key)))
    assert "needs ssl.truststore" in refusal(replace(good, truststore_location=None, client_auth="required"))


def test_an_expired_certificate_is_refused(good: TlsSettings, authority: Authority) -> None:
    with pytest.raises(ConfigError, match=r"O=Example\) expired at 20"):
        server_context(good, NOW_MS + 3 * 86_400_000)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_java_store_is_refused_with_how_to_convert_it(good: TlsSettings, kind: str) -> None:
    assert "openssl pkcs12 -in" in refusal(replace(good, keystore_type=kind))
    assert "openssl pkcs12 -in" in refusal(replace(good, truststore_type=kind))


def test_a_store_of_pem_has_no_password_as_in_kafka(good: TlsSettings) -> None:
    assert "ssl.keystore.password cannot be set" in refusal(replace(good, keystore_password=PASSWORD))
    assert "ssl.truststore.password cannot be set" in refusal(replace(good, truststore_password=PASSWORD))


def test_suites_decide_over_versions_as_in_kafka(good: TlsSettings) -> None:
    older = replace(good, suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",))
    assert server_context(older, NOW_MS).maximum_version is ssl.TLSVersion.TLSv1_2
    newer = replace(good, suites=("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"))
    assert server_context(newer, NOW_MS).minimum_version is ssl.TLSVersion.TLSv1_3
    assert "only be taken together" in refusal(replace(good, suites=newer.suites[:1]))
    assert "no suite that this OpenSSL knows" in refusal(replace(good, suites=("TLS_NONE_WITH_NOTHING",)))
    assert "no suite for any version" in refusal(replace(older, protocols=("TLSv1.3",)))
    assert "TLSv1.2 and TLSv1.3 are served" in refusal(replace(good, protocols=("TLSv1.1",)))

"""TLS of a client, by the keys of Kafka's clients: for the commands, which connect as any client would."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from tailrace.config import ConfigError
from tailrace.kafka.security_protocols import SECURITY_PROTOCOLS, encrypts
from tailrace.net.tls.settings import TlsSettings, keystore, limit_protocols, load_identity, load_trust, trust


def client_context(given: Mapping[str, str], now_ms: int) -> ssl.SSLContext | None:
    """None where security.protocol encrypts nothing, as PLAINTEXT, Kafka's default. Raises ConfigError.

    A server's certificate must come from ssl.truststore.*, where unset from the system's authorities, and name the
    host, unless ssl.endpoint.identification.algorithm is empty. Stores are PEM, also where no type is given;
    librdkafka's ssl.ca.location is one, too.
    """
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(f"security.protocol={protocol}: {', '.join(SECURITY_PROTOCOLS)} are served.")
    if not encrypts(protocol):
        return None
    settings = TlsSettings(
        keystore_type=given.get("ssl.keystore.type", "PEM"),
        keystore_location=given.get("ssl.keystore.location"),
        keystore_key=given.get("ssl.keystore.key"),
        keystore_chain=given.get("ssl.keystore.certificate.chain"),
        keystore_password=given.get("ssl.keystore.password"),
        key_password=given.get("ssl.key.password"),
        truststore_type=given.get("ssl.truststore.type", "PEM"),
        truststore_location=given.get("ssl.truststore.location") or given.get("ssl.ca.location"),
        truststore_certificates=given.get("ssl.truststore.certificates"),
        truststore_password=given.get("ssl.truststore.password"),
        protocols=_list(given.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")),
        suites=_list(given.get("ssl.cipher.suites", "")),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm", "https") != ""
    limit_protocols(context, settings)
    if (own := keystore(settings)) is not None:
        load_identity(context, own, settings, now_ms)
    if (trusted := trust(settings)) is not None:
        load_trust(context, trusted)
    else:
        context.load_default_certs()
    return context


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())

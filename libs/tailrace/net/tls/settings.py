"""A listener's TLS settings by Kafka's keys (KIP-651: PEM), and OpenSSL's context of them.

Every fault in them is one sentence that names the key: a start ends with it, and a reload keeps what was there before.
No sentence holds a key, a password or what stands in a file.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tailrace.config import Config, ConfigError
from tailrace.kafka.security_protocols import encrypts
from tailrace.net.tls.ciphers import SUITES_OF_1_3, of_1_3, older_suites
from tailrace.net.tls.distinguished_name import not_after_ms, subject_of
from tailrace.net.tls.encrypted_socket import NamedTls
from tailrace.net.tls.groups import limit_groups
from tailrace.net.tls.pem import PemBlock, blocks, key_and_chain
from tailrace.net.tls.reasons import said

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_ASKED: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_MOST_PEM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, repr=False)  # it holds secrets
class TlsSettings:
    """What a listener's context is made of. The texts of keys and certificates win over files, and exclude them."""

    keystore_type: str = "PEM"
    keystore_location: str | None = None
    keystore_key: str | None = None
    keystore_chain: str | None = None
    keystore_password: str | None = None
    key_password: str | None = None
    truststore_type: str = "PEM"
    truststore_location: str | None = None
    truststore_certificates: str | None = None
    truststore_password: str | None = None
    client_auth: str = "none"
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    suites: tuple[str, ...] = ()
    keeps_names: bool = False  # of hosts that clients ask for

    @property
    def files(self) -> tuple[str, ...]:
        """What may change on the disk."""
        return tuple(path for path in (self.keystore_location, self.truststore_location) if path)


def listener_settings(config: Config, protocol: str) -> TlsSettings | None:
    """Those of a listener with that protocol; None where it is plain."""
    if not encrypts(protocol):
        return None
    return TlsSettings(
        keystore_type=config.ssl_keystore_type,
        keystore_location=config.ssl_keystore_location,
        keystore_key=config.ssl_keystore_key,
        keystore_chain=config.ssl_keystore_certificate_chain,
        keystore_password=config.ssl_keystore_password,
        key_password=config.ssl_key_password,
        truststore_type=config.ssl_truststore_type,
        truststore_location=config.ssl_truststore_location,
        truststore_certificates=config.ssl_truststore_certificates,
        truststore_password=config.ssl_truststore_password,
        client_auth=config.ssl_client_auth,
        protocols=config.ssl_enabled_protocols,
        suites=config.ssl_cipher_suites,
    )


def server_context(settings: TlsSettings, now_ms: int) -> ssl.SSLContext:
    """Reads the files. Raises ConfigError; now_ms is wall time, for a certificate that has expired."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    limit_groups(context)
    limit_protocols(context, settings)
    if settings.keeps_names:
        NamedTls.keep_names(context)
    text = keystore(settings)
    if text is None:
        raise ConfigError("TLS needs ssl.keystore.location, or ssl.keystore.key with ssl.keystore.certificate.chain.")
    load_identity(context, text, settings, now_ms)
    trusted = trust(settings)
    if trusted is not None:
        load_trust(context, trusted)
    elif settings.client_auth != "none":
        raise ConfigError(f"ssl.client.auth={settings.client_auth} needs ssl.truststore.location, or the certificates.")
    context.verify_mode = _ASKED[settings.client_auth]
    return context


def limit_protocols(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """ssl.enabled.protocols and ssl.cipher.suites. Raises ConfigError."""
    unknown = [version for version in settings.protocols if version not in _VERSIONS]
    if unknown or not settings.protocols:
        raise ConfigError(f"ssl.enabled.protocols={','.join(settings.protocols)}: TLSv1.2 and TLSv1.3 are served.")
    versions = {_VERSIONS[version] for version in settings.protocols}
    if settings.suites:
        newer, older = of_1_3(settings.suites), older_suites(settings.suites)
        versions -= set() if newer else {ssl.TLSVersion.TLSv1_3}
        versions -= set() if older else {ssl.TLSVersion.TLSv1_2}
        if not versions:
            raise ConfigError("ssl.cipher.suites has no suite for any version of ssl.enabled.protocols.")
        if ssl.TLSVersion.TLSv1_3 in versions and len(newer) < len(SUITES_OF_1_3):
            raise ConfigError(
                f"ssl.cipher.suites: those of TLS 1.3 can only be taken together ({', '.join(SUITES_OF_1_3)}), "
                "or none of them."
            )
        if ssl.TLSVersion.TLSv1_2 in versions:
            try:
                context.set_ciphers(older)
            except ssl.SSLError:
                raise ConfigError("ssl.cipher.suites names no suite that this OpenSSL knows.") from None
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def load_identity(context: ssl.SSLContext, text: str, settings: TlsSettings, now_ms: int) -> None:
    """The private key and the chain, from one PEM text. Raises ConfigError."""
    origin = "ssl.keystore.location" if settings.keystore_location else "ssl.keystore.certificate.chain"
    key, chain = key_and_chain(text)
    if key is None:
        raise ConfigError(f"{settings.keystore_location or 'ssl.keystore.key'} has no private key in PEM form.")
    if not chain:
        raise ConfigError(f"{origin} has no certificate in PEM form.")
    if key.encrypted and not settings.key_password:
        raise ConfigError("The private key is encrypted, and ssl.key.password is not set.")
    try:
        own = ssl.PEM_cert_to_DER_cert(_plain(chain[0]))
        until_ms, subject = not_after_ms(own), subject_of(own)
    except ValueError:
        raise ConfigError(f"The first certificate of {origin} cannot be read.") from None
    if until_ms <= now_ms:
        ended = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat(" ", "seconds")
        raise ConfigError(f"The certificate of {origin} ({subject}) expired at {ended}.")
    _load_chain(context, key, chain, settings.key_password)


def _load_chain(context: ssl.SSLContext, key: PemBlock, chain: list[PemBlock], password: str | None) -> None:
    # OpenSSL reads files only; this one is in memory, and of this process alone.
    descriptor = os.memfd_create("tls-identity")
    try:
        os.write(descriptor, "".join(part.text for part in (key, *chain)).encode())
        # A password is always given: without one OpenSSL would ask at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password or "")
    except (ssl.SSLError, OSError) as wrong:
        if getattr(wrong, "reason", None) == "KEY_VALUES_MISMATCH":
            raise ConfigError("The private key does not fit the first certificate of its chain.") from None
        if key.encrypted:
            raise ConfigError("ssl.key.password does not open the private key.") from None
        raise ConfigError(f"OpenSSL does not take the key and the certificates: {said(wrong)}.") from None
    finally:
        os.close(descriptor)


def load_trust(context: ssl.SSLContext, text: str) -> None:
    """The certificates that the other side's must come from. Raises ConfigError."""
    trusted = [part for part in blocks(text) if part.is_certificate]
    if not trusted:
        raise ConfigError("ssl.truststore has no certificate in PEM form.")
    try:
        context.load_verify_locations(cadata="".join(map(_plain, trusted)))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, an authority need not be a root
    except (ssl.SSLError, ValueError) as wrong:
        raise ConfigError(f"OpenSSL does not take the certificates of ssl.truststore: {said(wrong)}.") from None


def keystore(settings: TlsSettings) -> str | None:
    """The PEM text of key and chain; None where nothing is given. Raises ConfigError."""
    if settings.keystore_key or settings.keystore_chain:
        if settings.keystore_location:
            raise ConfigError("ssl.keystore.location and ssl.keystore.key cannot both be set.")
        _only_pem("ssl.keystore", settings.keystore_type, settings.keystore_password)
        return f"{settings.keystore_key or ''}\n{settings.keystore_chain or ''}"
    if settings.keystore_location is None:
        return None
    _only_pem("ssl.keystore", settings.keystore_type, settings.keystore_password)
    return _read("ssl.keystore.location", settings.keystore_location)


def trust(settings: TlsSettings) -> str | None:
    """The PEM text of the trusted certificates; None where nothing is given. Raises ConfigError."""
    if settings.truststore_certificates:
        if settings.truststore_location:
            raise ConfigError("ssl.truststore.location and ssl.truststore.certificates cannot both be set.")
        _only_pem("ssl.truststore", settings.truststore_type, settings.truststore_password)
        return settings.truststore_certificates
    if settings.truststore_location is None:
        return None
    _only_pem("ssl.truststore", settings.truststore_type, settings.truststore_password)
    return _read("ssl.truststore.location", settings.truststore_location)


def _only_pem(store: str, kind: str, password: str | None) -> None:
    if kind != "PEM":
        keys = " -nokeys" if store == "ssl.truststore" else ""
        raise ConfigError(
            f"{store}.type={kind} cannot be read, only PEM: set {store}.type=PEM, and convert a JKS store with "
            "`keytool -importkeystore -srckeystore FILE -destkeystore store.p12 -deststoretype PKCS12`, then a PKCS12 "
            f"store with `openssl pkcs12 -in store.p12 -out store.pem{keys}`."
        )
    if password:
        other = "; ssl.key.password is for the key" if store == "ssl.keystore" else ""
        raise ConfigError(f"{store}.password cannot be set with {store}.type=PEM{other}.")


def _read(key: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST_PEM_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"{key}={path} cannot be read: {error.strerror}.") from None


def _plain(certificate: PemBlock) -> str:
    return certificate.text.replace(certificate.label, "CERTIFICATE")

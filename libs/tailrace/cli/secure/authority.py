"""A private certificate authority and the certificates that it issues: P-256 keys, X.509 v3 (RFC 5280)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3653
SERVER_DAYS: Final = 365
_RENEWED_SHARE: Final = 3  # a certificate is due in the last third of its life
_BEFORE: Final = timedelta(hours=1)  # clients' clocks may be behind
_COMMON_NAME_CHARS: Final = 64  # RFC 5280, ub-common-name


class Issued(NamedTuple):
    """A certificate and its private key, in PEM form."""

    key: bytes
    certificate: bytes


class Facts(NamedTuple):
    """The parts of a certificate that an operator looks at; times in milliseconds."""

    subject: str
    names: tuple[str, ...]
    not_before_ms: int
    not_after_ms: int
    fingerprint: str

    def is_due(self, now_ms: int) -> bool:
        """Whether it is to be renewed: no more than a third of its life is left."""
        return (self.not_after_ms - now_ms) * _RENEWED_SHARE <= self.not_after_ms - self.not_before_ms


def make_authority(name: str, now_ms: int) -> Issued:
    """A self-signed authority, which signs certificates of servers and no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _builder(subject, subject, key.public_key(), _time(now_ms), _time(now_ms) + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _issued(key, builder.sign(key, hashes.SHA256()))


def issue(authority: Issued, names: Iterable[str], now_ms: int) -> Issued:
    """A server's certificate for host names and IP addresses, the first of which is its common name."""
    listed = list(dict.fromkeys(names))
    parent = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(_time(now_ms) + timedelta(days=SERVER_DAYS), parent.not_valid_after_utc)
    builder = (
        _builder(_subject(listed[0]), parent.subject, key.public_key(), _time(now_ms), until)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in listed]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    return _issued(key, builder.sign(signing_key, hashes.SHA256()))


def facts_of(certificate: bytes) -> Facts:
    """Raises ValueError where the text holds no certificate; of several the first counts."""
    found = x509.load_pem_x509_certificate(certificate)
    try:
        listed = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names: tuple[str, ...] = ()
    else:
        names = tuple(str(name.value) for name in listed)
    return Facts(
        found.subject.rfc4514_string(),
        names,
        int(found.not_valid_before_utc.timestamp() * 1000),
        int(found.not_valid_after_utc.timestamp() * 1000),
        found.fingerprint(hashes.SHA256()).hex(":"),
    )


def signed_by(certificate: bytes, authority: bytes) -> bool:
    """Whether the authority's key has signed the certificate."""
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (InvalidSignature, ValueError, TypeError):  # another key, other bytes, another kind of key
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tailrace"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_COMMON_NAME_CHARS]),
        ]
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _issued(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Issued:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Issued(text, certificate.public_bytes(serialization.Encoding.PEM))


def _time(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms // 1000, UTC)

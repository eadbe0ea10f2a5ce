"""One address as a client meets it: its name, its port, and its certificate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tailrace.net.address import Address
from tailrace.net.tls.reasons import said

_WAIT_S: Final = 5.0
_HOSTNAME_MISMATCH: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED


class Trouble(NamedTuple):
    """Why an address cannot be used, and what to set."""

    sentence: str
    advice: str


class Probed(NamedTuple):
    """What was found at an address; a certificate's names and end where TLS was spoken."""

    ips: Sequence[str] = ()
    names: Sequence[str] = ()
    ends_ms: float | None = None
    trouble: Trouble | None = None


class AddressProbe(Protocol):
    """Looks at an address, with TLS if the client uses it."""

    async def __call__(self, at: Address, tls: ssl.SSLContext | None) -> Probed: ...


async def probe(at: Address, tls: ssl.SSLContext | None) -> Probed:
    """Resolves the name, connects, and shakes hands."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as unknown:  # IDNA refuses a..b
        why = unknown.strerror if isinstance(unknown, OSError) else "it is not a host name"
        return Probed(
            trouble=Trouble(
                f"the name {at.host} is not known on this machine ({why})",
                "Use a name that its DNS or /etc/hosts has",
            )
        )
    ips = tuple(dict.fromkeys(str(row[4][0]) for row in found))
    try:
        async with asyncio.timeout(_WAIT_S):
            _, writer = await asyncio.open_connection(at.host, at.port, ssl=tls)
    except TimeoutError:
        why = f"{at} does not answer within {_WAIT_S:g} s"
        return Probed(ips, trouble=Trouble(why, "Look for a firewall, or an address of another network"))
    except ssl.SSLCertVerificationError as refused:
        return Probed(ips, trouble=await _untrusted(at, refused))
    except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as failed:
        return Probed(
            ips,
            trouble=Trouble(
                f"the TLS handshake with {at} fails ({said(failed)})",
                "If the port has no TLS, set security.protocol=PLAINTEXT or SASL_PLAINTEXT in --command-config",
            ),
        )
    except ConnectionRefusedError:
        return Probed(
            ips, trouble=Trouble(f"nothing listens at {at}", "Start it there, or use the address that it has")
        )
    except OSError as failed:
        return Probed(ips, trouble=Trouble(f"{at}: {failed.strerror or failed}", "Look at the network between both"))
    shown = writer.get_extra_info("peercert")
    writer.close()
    if not shown:
        return Probed(ips)
    names = [value for _, value in shown.get("subjectAltName", ())]
    return Probed(ips, names, ssl.cert_time_to_seconds(shown["notAfter"]) * 1000.0)


async def speaks_tls(at: Address) -> bool:
    """Whether a handshake succeeds there, whoever it is."""
    return await _certificate(at) is not None


async def _untrusted(at: Address, refused: ssl.SSLCertVerificationError) -> Trouble:
    if refused.verify_code in _HOSTNAME_MISMATCH:
        names = _names(await _certificate(at))
        return Trouble(
            f"the certificate of {at} is not for {at.host}, but for {', '.join(names) or 'no name'}",
            f"Connect by one of its names, or make one with it: `tailrace cert renew --name {at.host}`",
        )
    if refused.verify_code == _EXPIRED:
        return Trouble(f"the certificate of {at} has expired", "`tailrace cert renew` makes a new one")
    return Trouble(
        f"the certificate of {at} is not trusted ({said(refused)})",
        "ssl.truststore.location in --command-config has to hold the authority that signed it (DIR/tls/ca.crt)",
    )


async def _certificate(at: Address) -> bytes | None:
    """The one that is shown, unverified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_WAIT_S):
            _, writer = await asyncio.open_connection(at.host, at.port, ssl=context)
    except (OSError, TimeoutError):
        return None
    secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
    shown = secured.getpeercert(binary_form=True)
    writer.close()
    return bytes(shown) if shown else None


def _names(certificate: bytes | None) -> list[str]:
    if certificate is None:
        return []
    from cryptography import x509

    try:
        found = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (ValueError, x509.ExtensionNotFound):
        return []
    return [str(name.value) for name in found.value]

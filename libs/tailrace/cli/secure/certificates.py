"""The certificates of one cluster in `DIR/tls`: the authority, made once, and the server's, renewed before it ends.

`server.pem` holds key and certificate, so that one rename replaces both, and listeners take it up by themselves.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.cli.secure.authority import Facts, Issued, facts_of, issue, make_authority, signed_by
from tailrace.config import ConfigError
from tailrace.config.hosts import WILDCARDS, is_host
from tailrace.net.tls.pem import key_and_chain
from tailrace.private_files import private_folder, write_private

FOLDER: Final = "tls"
AUTHORITY: Final = "ca.pem"  # key and certificate
TRUST: Final = "ca.crt"  # the certificate alone, for clients
SERVER: Final = "server.pem"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# Names of the documentation, and addresses that no packet is sent to: connect(2) of UDP only looks up a route.
_ROUTED: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class CertificateFiles(NamedTuple):
    """Where the certificates of a data directory are."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / AUTHORITY

    @property
    def trust(self) -> Path:
        return self.folder / TRUST

    @property
    def server(self) -> Path:
        return self.folder / SERVER


def files_of(data_dir: Path) -> CertificateFiles:
    """The files, which need not be there."""
    return CertificateFiles(data_dir / FOLDER)


def names_for(listen: Iterable[str], advertised: Iterable[str]) -> list[str]:
    """The names and addresses that clients of this machine connect to, the name of the machine first."""
    hosts = list(listen)
    found = [socket.gethostname(), *LOOPBACK]
    if any(host in WILDCARDS for host in hosts):
        found += _routed_addresses()
    found += [host for host in hosts if host not in WILDCARDS]
    return [name for name in dict.fromkeys([*found, *advertised]) if is_host(name)]


def ensure(files: CertificateFiles, names: Sequence[str], now_ms: int) -> str | None:
    """Makes what is missing and renews what is due; one word for what was done, None for nothing.

    A name that the server's certificate has already is kept. Raises ConfigError, OSError.
    """
    authority = _authority(files, now_ms)
    if not files.server.exists():
        _write_server(files, authority, names, now_ms)
        return "created"
    facts = server_facts(files)
    kept = list(dict.fromkeys([*names, *facts.names]))
    if facts.is_due(now_ms) or set(kept) != set(facts.names) or not _is_ours(files):
        _write_server(files, authority, kept, now_ms)
        return "renewed"
    return None


def renew(files: CertificateFiles, names: Sequence[str], now_ms: int) -> None:
    """A new certificate now, with the names of the old one and those that are given. Raises ConfigError, OSError."""
    old = server_facts(files).names if files.server.exists() else ()
    _write_server(files, _authority(files, now_ms), list(dict.fromkeys([*names, *old])), now_ms)


def _write_server(files: CertificateFiles, authority: Issued, names: Sequence[str], now_ms: int) -> None:
    """Replaces key and certificate of the server at once."""
    made = issue(authority, names, now_ms)
    write_private(files.server, made.key + made.certificate)


def server_facts(files: CertificateFiles) -> Facts:
    """What the server's certificate says. Raises ConfigError."""
    return _facts(files.server)


def authority_facts(files: CertificateFiles) -> Facts:
    """What the authority's certificate says. Raises ConfigError."""
    return _facts(files.authority)


def _is_ours(files: CertificateFiles) -> bool:
    """Whether the authority here signed the server's certificate."""
    return signed_by(_certificate(files.server), _certificate(files.authority))


def _facts(path: Path) -> Facts:
    return facts_of(_certificate(path))


def _certificate(path: Path) -> bytes:
    _, chain = key_and_chain(_read(path))
    if not chain:
        raise ConfigError(f"{path} has no certificate in PEM form.")
    return chain[0].text.encode()


def _authority(files: CertificateFiles, now_ms: int) -> Issued:
    """The authority's key and certificate, made where there is none: clients trust the one that is there for years."""
    private_folder(files.folder)
    if not files.authority.exists():
        made = make_authority(f"{socket.gethostname()} authority", now_ms)
        write_private(files.authority, made.key + made.certificate)
    key, chain = key_and_chain(_read(files.authority))
    if key is None or not chain:
        raise ConfigError(f"{files.authority} has no private key, or no certificate, in PEM form.")
    found = Issued(key.text.encode(), chain[0].text.encode())
    if facts_of(found.certificate).not_after_ms <= now_ms:
        raise ConfigError(
            f"The authority {files.authority} has expired. Move {files.folder} away and start again: a new one is "
            "made, and every client needs the new ca.crt."
        )
    if not files.trust.exists() or files.trust.read_bytes() != found.certificate:
        write_private(files.trust, found.certificate)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None


def _routed_addresses() -> list[str]:
    """This machine's own addresses on the routes to elsewhere."""
    found = []
    for family, elsewhere in _ROUTED:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            found.append(str(ip_address(probe.getsockname()[0].partition("%")[0])))
    return found

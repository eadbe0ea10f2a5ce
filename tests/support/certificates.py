"""Certificates made with the `openssl` command: an authority, a server's for 127.0.0.1, and clients'."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


def openssl(*arguments: str | Path, text: str | None = None) -> str:
    """Runs the command; its output."""
    done = subprocess.run(
        ["openssl", *map(str, arguments)], input=text, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@dataclass(frozen=True)
class Pair:
    """A private key and its certificate, in files; `both` has them one behind the other, as ssl.keystore.location."""

    key: Path
    certificate: Path
    both: Path


class Authority:
    """Signs certificates in a directory."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.certificate = directory / f"{name}.crt"
        self.key = directory / f"{name}.key"
        subject = ("-subj", f"/CN={name}", "-days", "2")
        openssl("req", "-x509", *new_key(self.key), *subject, "-out", self.certificate)

    @classmethod
    def of(cls, pair: Pair, directory: Path) -> Authority:
        """One whose certificate another authority has signed; what it signs comes to the directory."""
        made = cls.__new__(cls)
        made.directory, made.certificate, made.key = directory, pair.certificate, pair.key
        return made

    def sign(
        self,
        name: str,
        subject: str,
        *,
        days: int = 2,
        rsa: bool = False,
        names: str = "IP:127.0.0.1",
        authority: bool = False,
    ) -> Pair:
        """subject: as openssl writes it, /O=Example/CN=alice. A negative `days` makes one that has expired."""
        key, request, certificate = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        asked: tuple[str, ...] = ("-subj", subject, "-utf8", "-multivalue-rdn", "-addext", f"subjectAltName={names}")
        asked += ("-addext", "basicConstraints=critical,CA:TRUE") if authority else ()
        openssl("req", *new_key(key, rsa=rsa), *asked, "-out", request)
        by = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-copy_extensions", "copy")
        when = ("-days", str(days))
        openssl("x509", "-req", "-in", request, *by, *when, "-out", certificate)
        both = self.directory / f"{name}.pem"
        both.write_text(key.read_text() + certificate.read_text())
        both.chmod(0o600)
        return Pair(key, certificate, both)


def listener_settings(server: Pair, authority: Authority | None = None) -> dict[str, str]:
    """A listener with that certificate; with an authority, every client must show one of its certificates."""
    settings = {
        "gateway.security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.both),
    }
    if authority is not None:
        settings |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "ssl.client.auth": "required",
        }
    return settings


def new_key(file: Path, *, rsa: bool = False) -> tuple[str | Path, ...]:
    """Options of `req` for a new key without a password."""
    kind = ("rsa:2048",) if rsa else ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    return ("-newkey", *kind, "-nodes", "-keyout", file)

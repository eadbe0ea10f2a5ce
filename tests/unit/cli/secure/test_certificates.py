"""The certificates in a data directory: made once, kept, renewed in time."""

from __future__ import annotations

import socket
import ssl
import stat
from pathlib import Path

import pytest

from tailrace.cli.secure.certificates import (
    LOOPBACK,
    CertificateFiles,
    authority_facts,
    ensure,
    files_of,
    names_for,
    renew,
    server_facts,
)
from tailrace.config import ConfigError

NOW_MS = 1_900_000_000_000
NAMES = ["host.example.org", "127.0.0.1"]
NEARLY_A_YEAR_MS = 300 * 86_400_000
TEN_YEARS_MS = 3_660 * 86_400_000


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    found = files_of(tmp_path)
    assert ensure(found, NAMES, NOW_MS) == "created"
    return found


def content(files: CertificateFiles) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.folder.iterdir()}


def test_its_owner_alone_may_open_what_is_made(files: CertificateFiles) -> None:
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir()} == dict.fromkeys(
        ("ca.pem", "ca.crt", "server.pem"), 0o600
    )


def test_the_certificate_for_clients_comes_without_the_key(files: CertificateFiles) -> None:
    assert b"PRIVATE KEY" not in files.trust.read_bytes()


def test_openssl_takes_key_and_certificate(files: CertificateFiles) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.server)


def test_what_is_there_stays(files: CertificateFiles) -> None:
    before = content(files)
    assert ensure(files, NAMES, NOW_MS) is None
    assert content(files) == before


def test_it_is_renewed_before_it_ends_and_by_the_same_authority(files: CertificateFiles) -> None:
    before = content(files)
    assert ensure(files, NAMES, NOW_MS + NEARLY_A_YEAR_MS) == "renewed"
    after = content(files)
    assert after["server.pem"] != before["server.pem"]
    assert after["ca.pem"] == before["ca.pem"]
    assert not server_facts(files).is_due(NOW_MS + NEARLY_A_YEAR_MS)


def test_a_new_name_renews_it_and_old_names_are_kept(files: CertificateFiles) -> None:
    assert ensure(files, ["10.0.0.7"], NOW_MS) == "renewed"
    assert set(server_facts(files).names) == {"10.0.0.7", *NAMES}
    renew(files, ["again.example.org"], NOW_MS)
    assert set(server_facts(files).names) == {"10.0.0.7", "again.example.org", *NAMES}


def test_a_certificate_of_another_authority_is_replaced(files: CertificateFiles) -> None:
    files.authority.unlink()
    assert ensure(files, NAMES, NOW_MS) == "renewed"
    assert ensure(files, NAMES, NOW_MS) is None


def test_an_authority_that_has_expired_is_said(files: CertificateFiles) -> None:
    before = content(files)
    with pytest.raises(ConfigError, match="has expired"):
        ensure(files, NAMES, NOW_MS + TEN_YEARS_MS)
    assert content(files) == before


def test_a_file_that_holds_something_else_is_said(files: CertificateFiles) -> None:
    files.authority.write_text("nothing")
    with pytest.raises(ConfigError, match="no private key"):
        ensure(files, NAMES, NOW_MS)
    files.authority.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        authority_facts(files)


def test_names_are_those_that_clients_use() -> None:
    found = names_for(["10.0.0.5", "::1"], ["kafka.example.org", "other.example.org"])
    assert found[0] == socket.gethostname()
    assert {*LOOPBACK, "10.0.0.5", "kafka.example.org", "other.example.org"} <= set(found)
    assert "0.0.0.0" not in names_for(["0.0.0.0"], [])

"""The certificates of a cluster's own authority, as OpenSSL sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.certificates import openssl
from tailrace.cli.secure.authority import (
    AUTHORITY_DAYS,
    SERVER_DAYS,
    Issued,
    facts_of,
    issue,
    make_authority,
    signed_by,
)

DAY_MS = 86_400_000
NOW_MS = 1_900_000_000_000
NAMES = ("broker.example.org", "localhost", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def authority() -> Issued:
    return make_authority("host authority", NOW_MS)


def test_openssl_verifies_a_certificate_for_each_of_its_names(authority: Issued, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    (tmp_path / "server.crt").write_bytes(issue(authority, NAMES, NOW_MS).certificate)
    for name in NAMES:
        check = "-verify_ip" if ":" in name or name[0].isdigit() else "-verify_hostname"
        purpose = ("-x509_strict", "-purpose", "sslserver", "-attime", str(NOW_MS // 1000))
        openssl("verify", *purpose, check, name, "-CAfile", tmp_path / "ca.crt", tmp_path / "server.crt")


def test_an_authority_lasts_ten_years_and_a_server_one(authority: Issued) -> None:
    assert facts_of(authority.certificate).not_after_ms == NOW_MS + AUTHORITY_DAYS * DAY_MS
    facts = facts_of(issue(authority, NAMES, NOW_MS).certificate)
    assert facts.not_after_ms == NOW_MS + SERVER_DAYS * DAY_MS
    assert facts.names == NAMES


def test_a_certificate_is_due_in_the_last_third_of_its_life(authority: Issued) -> None:
    facts = facts_of(issue(authority, NAMES, NOW_MS).certificate)
    third_ms = (facts.not_after_ms - facts.not_before_ms) // 3
    assert not facts.is_due(NOW_MS)
    assert not facts.is_due(facts.not_after_ms - third_ms - 1)
    assert facts.is_due(facts.not_after_ms - third_ms)


def test_a_certificate_ends_with_its_authority(authority: Issued) -> None:
    end_ms = facts_of(authority.certificate).not_after_ms
    assert facts_of(issue(authority, NAMES, end_ms - DAY_MS).certificate).not_after_ms == end_ms


def test_keys_are_of_p256(authority: Issued) -> None:
    text = openssl("pkey", "-noout", "-text", text=issue(authority, NAMES, NOW_MS).key.decode())
    assert "prime256v1" in text


def test_another_authority_has_not_signed(authority: Issued) -> None:
    server = issue(authority, NAMES, NOW_MS).certificate
    assert signed_by(server, authority.certificate)
    assert not signed_by(server, make_authority("host authority", NOW_MS).certificate)

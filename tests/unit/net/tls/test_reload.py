"""Certificates that change on the disk: new connections get them, within a second, and a bad file changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from support.certificates import Authority, Pair
from tailrace.clock import ManualClock
from tailrace.net.tls.reload import LOOK_EVERY_MS, ServerContexts
from tailrace.net.tls.settings import TlsSettings


def put(file: Path, text: str) -> None:
    """As tools do that renew certificates: another file takes the name."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def test_a_changed_file_is_taken_once_and_a_bad_one_is_not(
    tmp_path: Path, authority: Authority, server: Pair, alice: Pair
) -> None:
    file, clock, log = tmp_path / "server.pem", ManualClock(), structlog.testing.CapturingLogger()
    put(file, server.both.read_text())
    contexts = ServerContexts(
        TlsSettings(keystore_location=str(file)), clock, structlog.wrap_logger(log, processors=[])
    )
    first = contexts.current()
    put(file, alice.both.read_text())
    assert contexts.current() is first, "the disk is looked at once a second at most"
    clock.advance(LOOK_EVERY_MS)
    second = contexts.current()
    assert second is not first and contexts.current() is second
    put(file, "no certificate")
    clock.advance(LOOK_EVERY_MS)
    assert contexts.current() is second
    file.unlink()
    clock.advance(LOOK_EVERY_MS)
    assert contexts.current() is second
    assert [call.kwargs["event"] for call in log.calls] == [
        "certificates reloaded",
        "certificates not reloaded",
        "certificates not reloaded",
    ]

"""What one process is set to before its role opens."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from support.certificates import Authority
from tailrace.clock import ManualClock
from tailrace.net.limits.seldom import LINES
from tailrace.net.tls.encrypted_socket import NamedTls
from tailrace.runtime.role_instance import limit_unraisable

NAME = b"aaaa.kafka.test"


def hello() -> bytes:
    """What a client sends first, that asks for a host by bytes that are no name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=NAME.decode())
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read().replace(NAME, b"\xff" + NAME[1:])


def test_clients_that_ask_for_no_name_are_refused_and_fill_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: Any = CapturingLogger()
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restored afterwards
    limit_unraisable(SimpleNamespace(log=log, clock=ManualClock()))  # type: ignore[arg-type]
    pair = Authority(tmp_path).sign("server", "/CN=server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    NamedTls.keep_names(context)
    for _ in range(LINES + 5):
        incoming = ssl.MemoryBIO()
        server = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
        incoming.write(hello())
        with pytest.raises(ssl.SSLError, match="CALLBACK_FAILED"):
            server.do_handshake()
    assert len(log.calls) == LINES
    assert "UnicodeDecodeError" in log.calls[0].kwargs["why"]


class Long:
    """Something whose text is long, and that cannot be deleted."""

    def __repr__(self) -> str:
        return "long" * 1_000

    def __del__(self) -> None:
        raise ValueError("wrong" * 1_000)


def test_what_cannot_be_raised_is_told_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Any = CapturingLogger()
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restored afterwards
    limit_unraisable(SimpleNamespace(log=log, clock=ManualClock()))  # type: ignore[arg-type]
    Long()
    (said,) = log.calls
    assert said.kwargs["why"].startswith("ValueError('wrong") and len(said.kwargs["why"]) == 200
    assert len(said.kwargs["where"]) <= 200

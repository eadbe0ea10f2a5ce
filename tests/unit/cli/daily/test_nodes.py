"""Nodes at the addresses that a cluster tells: one that cannot be reached is named, with what to set."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes
from tailrace.net.address import Address
from tailrace.net.client import Disconnected

BOOTSTRAP = "127.0.0.1:9092"
COMMANDS = (
    ["topic", "describe", "orders"],
    ["produce", "orders"],
    ["consume", "orders"],
    ["consume", "orders", "-g", "readers"],
    ["group", "describe", "readers"],
    ["group", "list"],
    ["broker", "log-dirs"],
)


class Advertising(RefusingCluster):
    """The bootstrap address answers; at the address of node 0 that it tells, nothing does."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def client(self, address: Address, client_id: str, tls: object = None, login: object = None) -> Any:
        found: Any = super().client(address, client_id, tls, login)
        found.address = address
        if str(address) == BOOTSTRAP:
            return found

        async def connect(timeout_ms: float) -> None:
            raise self._error from self._error.__cause__

        found.connect = connect
        return found


def refused() -> Exception:
    error = Disconnected("127.0.0.1:1: Connect call failed")
    error.__cause__ = ConnectionRefusedError(111, "Connect call failed")
    return error


def typed(error: Exception, words: list[str], monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr(nodes, "Client", Advertising(error).client)
    return CliRunner().invoke(app, words, input="a\n", env={"TAILRACE_BOOTSTRAP": BOOTSTRAP})


@pytest.mark.parametrize("words", COMMANDS)
def test_an_advertised_address_where_nothing_listens_is_named(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = typed(refused(), words, monkeypatch)
    assert done.exit_code == 1
    assert done.output == (
        "127.0.0.1:9092 answers, and says that node 0 is at 127.0.0.1:1, but there nothing listens. Advertise an "
        "address that this machine reaches: `tailrace up --advertise HOST:PORT`, or gateway.advertised.host and "
        "gateway.advertised.port\n"
    )


def test_an_advertised_address_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(TimeoutError(), ["topic", "describe", "orders"], monkeypatch)
    assert done.exit_code == 1
    assert "says that node 0 is at 127.0.0.1:1, but there is no answer. " in done.output

"""Which addresses `up` does without, and which not."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from tailrace.cli.data_dir import UpRefused
from tailrace.cli.ports import Reservation

OF_NO_MACHINE = "192.0.2.1"  # RFC 5737


@pytest.fixture
def without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a kernel that was started with ipv6.disable=1."""
    real = socket.socket

    def made(family: int = socket.AF_INET, *more: Any, **named: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *more, **named)

    monkeypatch.setattr(socket, "socket", made)


@pytest.mark.usefixtures("without_ipv6")
@pytest.mark.parametrize("hosts", [("127.0.0.1", "::1"), ("0.0.0.0", "::")])
def test_a_machine_without_ipv6_listens_with_ipv4_alone(hosts: tuple[str, str]) -> None:
    taken = Reservation(hosts, 0, 2)
    taken.close()
    assert taken.hosts == [hosts[0]]


@pytest.mark.usefixtures("without_ipv6")
def test_but_not_at_no_address_at_all() -> None:
    with pytest.raises(UpRefused, match=":: is no address of this machine"):
        Reservation(["::"], 0, 1)


def test_an_address_that_somebody_chose_must_be_there() -> None:
    with pytest.raises(UpRefused, match=OF_NO_MACHINE):
        Reservation(["127.0.0.1", OF_NO_MACHINE], 0, 1)

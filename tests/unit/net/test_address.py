"""What an address is, and how it is written."""

from __future__ import annotations

import pytest

from tailrace.net.address import Address
from tailrace.net.identity import Identity


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        ("[fd00::1%eth0]:9092", Address("fd00::1%eth0", 9092)),
        ("unix:/run/a:b.sock", Address("/run/a:b.sock", -1)),
    ],
)
def test_it_is_read_as_it_is_written(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


def test_a_pod_writes_its_address_in_brackets_whatever_it_is() -> None:
    """The chart does not know the family of the pod's address."""
    assert Address.parse("[10.0.0.7]:9190") == Address("10.0.0.7", 9190)


@pytest.mark.parametrize("text", ["::1", "::1:9092", "fd00::1:9190", "[::1:9092", "::1]:9092"])
def test_ipv6_without_brackets_is_refused_because_it_could_be_two_things(text: str) -> None:
    with pytest.raises(ValueError, match=r"IPv6 is in brackets, as in \[::1\]:9092"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:x", "localhost:65536", "[::1]"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        Address.parse(text)


@pytest.mark.parametrize(("host", "written"), [("192.0.2.1", "192.0.2.1:50000"), ("fd00::1", "[fd00::1]:50000")])
def test_lines_of_the_log_name_a_client_by_its_address(host: str, written: str) -> None:
    assert Identity(client_host=host, client_port=50000).client == written

"""Where a role listens for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.config import Config, ConfigError
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.members.internal import advertised_address, advertised_endpoints, internal_address

SECRET = Secret(b"s" * 32)


def listen(text: str, secret: Secret | None = SECRET) -> Address:
    config = Config.load("broker", overrides={"internal.listen": text})
    return internal_address(config, Path("unused"), "broker-1", secret)


def test_a_unix_socket_unless_told_otherwise(tmp_path: Path) -> None:
    address = internal_address(Config.load("broker"), tmp_path / "run", "broker-1", None)
    assert address == Address(str(tmp_path / "run" / "broker-1.sock"), -1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", ("127.0.0.1", 0)),
        ("127.0.0.1:9093", ("127.0.0.1", 9093)),
        ("::1", ("::1", 0)),
        ("10.1.2.3:9093", ("10.1.2.3", 9093)),
    ],
)
def test_tcp_needs_the_clusters_secret(text: str, expected: tuple[str, int]) -> None:
    assert listen(text) == expected
    with pytest.raises(ConfigError, match=r"internal\.secret\.file"):
        listen(text, secret=None)


@pytest.mark.parametrize("text", ["broker.example:9093", "127.0.0.1:x", "[::1", "1.2.3"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"internal\.listen"):
        listen(text)


@pytest.mark.parametrize("text", ["0.0.0.0:9093", "::"])
def test_every_address_of_a_machine_is_no_address_for_the_other_roles(text: str) -> None:
    with pytest.raises(ConfigError, match=r"internal\.advertised\.host"):
        listen(text)


def test_the_other_roles_are_told_the_name_and_the_port_that_is_bound(tmp_path: Path) -> None:
    named = {"internal.listen": "0.0.0.0", "internal.advertised.host": "broker-1"}
    config = Config.load("broker", overrides=named)
    assert internal_address(config, tmp_path, "broker-1", SECRET) == ("0.0.0.0", 0)
    assert advertised_address(config, Address("0.0.0.0", 9093)) == ("broker-1", 9093)
    assert advertised_address(config, Address("/run/broker-1.sock", -1)).is_unix
    bound = [Address("0.0.0.0", 9093), Address("/run/broker-1.sock", -1)]
    told = [(endpoint.name, endpoint.host) for endpoint in advertised_endpoints(config, bound, "boot")]
    assert told == [("INTERNAL", "broker-1"), ("UNIX-boot", "/run/broker-1.sock")]
    unnamed = Config.load("broker", overrides={"internal.listen": "10.1.2.3"})
    assert advertised_address(unnamed, Address("10.1.2.3", 9093)) == ("10.1.2.3", 9093)

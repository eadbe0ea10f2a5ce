"""Where a role listens for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.config import Config, ConfigError
from tailrace.net.address import Address
from tailrace.net.members.internal import internal_address


def listen(text: str, **more: str) -> Address:
    overrides = {"internal.listen": text, **{key.replace("_", "."): value for key, value in more.items()}}
    return internal_address(Config.load("broker", overrides=overrides), Path("unused"), "broker-1")


def test_a_unix_socket_unless_told_otherwise(tmp_path: Path) -> None:
    address = internal_address(Config.load("broker"), tmp_path / "run", "broker-1")
    assert address == Address(str(tmp_path / "run" / "broker-1.sock"), -1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1", ("127.0.0.1", 0)), ("127.0.0.1:9093", ("127.0.0.1", 9093)), ("::1", ("::1", 0))],
)
def test_the_loopback_needs_no_leave(text: str, expected: tuple[str, int]) -> None:
    assert listen(text) == expected


def test_beyond_the_loopback_leave_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"internal\.insecure=true"):
        listen("10.1.2.3:9093")
    assert listen("10.1.2.3:9093", internal_insecure="true") == ("10.1.2.3", 9093)


@pytest.mark.parametrize("text", ["broker.example:9093", "127.0.0.1:x", "[::1", "1.2.3"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"internal\.listen"):
        listen(text)

"""Hosts and URLs among the config values."""

from __future__ import annotations

import pytest

from tailrace.config import Config, ConfigError
from tailrace.config.hosts import is_host
from tailrace.net.address import Address


@pytest.mark.parametrize(
    "text", ["localhost", "log.example.com", "log.example.com.", "kafka_1", "127.0.0.1", "::1", "fe80::1%eth0"]
)
def test_what_a_host_is(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize(
    "text", ["", "bad host:::", "a:9092", "[::1]", "-a", "a..b", "1.2.3", "256.1.1.1", "a/b", "a" * 64, "a." * 127]
)
def test_what_none_is(text: str) -> None:
    assert not is_host(text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("gateway.advertised.host", "a b"),
        ("gateway.advertised.host", "0.0.0.0"),
        ("gateway.listen", ""),
        ("gateway.listen", "127.0.0.1,a b"),
        ("health.listen", "a.."),
        ("controller.quorum.bootstrap.servers", "a b:9093"),
        ("controller.quorum.bootstrap.servers", "::1:9190"),  # `::1` could be the host and the port 1
        ("controller.quorum.bootstrap.servers", "fd00::7:9190"),
        ("controller.quorum.bootstrap.servers", "[::1:9190"),
        ("metadata.url", "foo"),
        ("metadata.url", "mysql://here/there"),
        ("metadata.url", "postgresql://here:port/there"),
        ("metadata.url", "postgresql://[::1/there"),
        ("quota.url", "http://localhost"),
        ("quota.url", "redis://:port@here"),
        ("quota.url", "redis://here:port"),
        ("quota.url", "unix://here"),
    ],
)
def test_a_value_that_is_no_address_is_refused_with_its_key(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        Config.load("gateway", overrides={key: text})


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///metadata.db",
        "postgresql://me:secret@here:5432/it",
        "postgresql+psycopg://here/it",
        "postgresql:///it",
    ],
)
def test_metadata_urls(url: str) -> None:
    assert Config.load("controller", f"metadata.url={url}").metadata_url == url


def test_what_is_taken_for_an_address_is_read_as_one() -> None:
    """Else the first service that reads it would end with a traceback."""
    given = "[fd00::7]:9190,10.0.0.7:9190,[10.0.0.7]:9190,here:1,unix:/run/a:b.sock"
    told = Config.load("gateway", overrides={"controller.quorum.bootstrap.servers": given})
    assert len([Address.parse(one) for one in told.controller_quorum_bootstrap_servers]) == 5

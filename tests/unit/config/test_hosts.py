"""Hosts and URLs among the config values."""

from __future__ import annotations

import pytest

from tailrace.config import Config, ConfigError
from tailrace.config.hosts import is_host


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
        ("metadata.url", "foo"),
        ("metadata.url", "mysql://here/there"),
        ("metadata.url", "postgresql://here:port/there"),
        ("metadata.url", "postgresql://[::1/there"),
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
    assert Config.load("controller", overrides={"metadata.url": url}).metadata_url == url

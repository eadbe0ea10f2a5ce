"""How many connections an address may have open."""

from __future__ import annotations

import pytest

from tailrace.clock import ManualClock
from tailrace.config import Config, ConfigError
from tailrace.net.limits.connections_per_ip import ConnectionsPerIp, connections_per_ip
from tailrace.net.quotas.throttled_connections import ThrottledConnections


class Socket:
    closed = False

    def close(self) -> None:
        self.closed = True


class Handshaking:
    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts

    def count_of(self, host: str) -> int:
        return self.hosts.count(host)


def of(most: int, overrides: str = "") -> ConnectionsPerIp:
    settings = {"max.connections.per.ip": str(most), "max.connections.per.ip.overrides": overrides}
    return connections_per_ip(Config.load("gateway", overrides=settings))


def test_an_address_has_as_many_as_it_may() -> None:
    counted = of(2)
    first, second = object(), object()
    for connection in (first, second):
        assert not counted.refused("10.0.0.1")
        counted.opened(connection, "10.0.0.1")
    assert counted.refused("10.0.0.1") and not counted.refused("10.0.0.2")
    counted.closed(first)
    counted.closed(first)
    assert not counted.refused("10.0.0.1") and counted.refused_count == 1


def test_half_of_a_handshake_is_a_connection() -> None:
    counted = of(2)
    counted.half_open.append(Handshaking("10.0.0.1", "10.0.0.1"))
    assert counted.refused("10.0.0.1") and not counted.refused("10.0.0.2")


def test_an_address_may_have_a_limit_of_its_own() -> None:
    counted = of(0, "10.0.0.1:1, localhost:3,[2001:db8::1]:2")
    assert counted.refused("10.0.0.9")
    assert not any(map(counted.refused, ("10.0.0.1", "::ffff:10.0.0.1", "127.0.0.1", "2001:db8::1")))
    counted.opened(object(), "::ffff:10.0.0.1")
    assert counted.refused("10.0.0.1")


def test_one_too_many_is_closed_at_once() -> None:
    clock, counted = ManualClock(), of(1)
    throttled = ThrottledConnections(lambda ip, broker_id: 0, clock, counted)
    counted.opened(object(), "10.0.0.1")
    sock = Socket()
    assert throttled.refused(sock, "10.0.0.1", 0, 100) and sock.closed
    assert not throttled.refused(Socket(), "10.0.0.2", 0, 100)
    assert (len(throttled), throttled.refused_count, counted.refused_count) == (0, 0, 1)


def test_without_a_limit_there_is_none() -> None:
    counted = of(2_147_483_647)
    for _ in range(100):
        assert not counted.refused("10.0.0.1")
        counted.opened(object(), "10.0.0.1")


@pytest.mark.parametrize(
    ("most", "overrides", "words"),
    [
        (0, "", "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set"),
        (1, "10.0.0.1", "is not HOST:COUNT"),
        (1, "10.0.0.1:-1", "is not HOST:COUNT"),
        (1, ":5", "is not HOST:COUNT"),
        (1, "a..b:5", "max.connections.per.ip.overrides contains invalid addresses"),
    ],
)
def test_what_kafka_refuses_is_refused(most: int, overrides: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of(most, overrides)

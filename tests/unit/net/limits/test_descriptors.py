"""Who makes room for a connection when few file descriptors are left."""

from __future__ import annotations

import resource

from support.sessions import session_of
from tailrace.net.identity import Identity
from tailrace.net.limits.descriptors import make_room, most_descriptor


class Client:
    """A connection from an address."""

    def __init__(self, host: str, *, is_idle: bool = True) -> None:
        self.session = session_of(Identity(client_host=host))
        self.is_idle = is_idle
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_idle_connections_of_the_address_with_the_most_are_closed() -> None:
    greedy = [Client("greedy", is_idle=number % 2 == 0) for number in range(10)]
    others = [Client(f"other-{number}") for number in range(20)]
    assert make_room([*others, *greedy]) == 5
    assert [client.closed for client in greedy] == [client.is_idle for client in greedy]
    assert not any(client.closed for client in others)


def test_one_address_of_very_many_loses_some_at_a_time_and_never_its_last() -> None:
    clients = [Client("only") for _ in range(100)]
    assert 0 < make_room(clients) == sum(client.closed for client in clients) < 50
    assert make_room([Client("one"), Client("each")]) == 0
    assert make_room([Client("busy", is_idle=False)] * 3) == 0
    assert make_room([]) == 0


def test_clients_have_most_of_the_descriptors_and_not_all() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft // 2 < most_descriptor() < soft

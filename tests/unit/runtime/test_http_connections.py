"""Who keeps a place at an HTTP port, who gives way, and who is refused."""

from tailrace.runtime.http_connections import HttpConnections


class Port:
    """Connections are names; `ended` says who had to make room."""

    def __init__(self, most: int, most_of_one_address: int) -> None:
        self.connections = HttpConnections(most, most_of_one_address)
        self.ended: list[str] = []

    def admit(self, name: str, address: str = "a") -> bool:
        return self.connections.admit(name, address, lambda: self.ended.append(name))


def test_the_longest_idle_connection_of_an_address_makes_room_for_its_next() -> None:
    port = Port(most=4, most_of_one_address=2)
    assert port.admit("elsewhere", "b")
    assert all(port.admit(name) for name in ("first", "second", "third"))
    assert port.ended == ["first"]
    assert len(port.connections) == 3


def test_where_the_port_is_full_the_longest_idle_of_all_makes_room() -> None:
    port = Port(most=2, most_of_one_address=2)
    assert port.admit("first") and port.admit("second") and port.admit("other", "b")
    assert port.ended == ["first"]


def test_who_is_being_answered_keeps_the_place_and_gets_in_line_anew_afterwards() -> None:
    port = Port(most=2, most_of_one_address=2)
    assert port.admit("first") and port.admit("second")
    port.connections.answering("first")
    assert port.admit("third")
    assert port.ended == ["second"]
    port.connections.idle("first", lambda: port.ended.append("first"))
    assert port.admit("fourth")
    assert port.ended == ["second", "third"]


def test_a_newcomer_is_refused_where_all_are_being_answered_also_those_of_its_address_alone() -> None:
    port = Port(most=3, most_of_one_address=2)
    for name, address in (("first", "a"), ("second", "a"), ("other", "b")):
        assert port.admit(name, address)
        port.connections.answering(name)
    assert not port.admit("third", "a")
    assert not port.admit("fourth", "c")
    port.connections.remove("other")
    assert not port.admit("third", "a")
    assert port.admit("fourth", "c")
    assert port.ended == []


def test_places_are_given_back_once() -> None:
    port = Port(most=1, most_of_one_address=1)
    assert port.admit("first")
    port.connections.remove("first")
    port.connections.remove("first")
    port.connections.idle("first", lambda: None)
    assert len(port.connections) == 0
    assert port.admit("second") and port.ended == []

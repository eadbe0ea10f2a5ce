"""Connections above an address' rate are held for a while and closed; none is held without room."""

import socket

from tailrace.net.quotas.throttled_connections import HELD_MS, ThrottledConnections
from tailrace.runtime.clock import SystemClock


class Timer:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock(SystemClock):
    """Keeps what is to be called."""

    def __init__(self) -> None:
        self.later: list[tuple[float, object, Timer]] = []

    def call_later(self, delay_ms, callback):  # type: ignore[no-untyped-def]
        timer = Timer()
        self.later.append((delay_ms, callback, timer))
        return timer


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def test_a_connection_within_the_rate_is_served() -> None:
    clock = Clock()
    throttled = ThrottledConnections(lambda ip, broker_id: 0, clock)
    ours, theirs = pair()
    assert not throttled.refused(ours, "10.0.0.1", 0, room=1)
    assert (throttled.refused_count, clock.later, ours.fileno() >= 0) == (0, [], True)
    ours.close()
    theirs.close()


def test_one_above_it_is_closed_after_its_throttle_and_a_second_at_most() -> None:
    clock = Clock()
    asked: list[tuple[str, int]] = []

    def admit(ip: str, broker_id: int) -> int:
        asked.append((ip, broker_id))
        return 250 * len(asked) ** 4

    throttled = ThrottledConnections(admit, clock)
    first, second = pair(), pair()
    assert throttled.refused(first[0], "10.0.0.1", 0, room=9) and throttled.refused(second[0], "10.0.0.2", 1, room=9)
    assert asked == [("10.0.0.1", 0), ("10.0.0.2", 1)]
    assert [delay_ms for delay_ms, _, _ in clock.later] == [250, HELD_MS]
    assert len(throttled) == 2 and first[0].fileno() >= 0
    clock.later[0][1]()  # type: ignore[operator]
    assert first[1].recv(1) == b"" and len(throttled) == 1
    throttled.close()
    assert second[1].recv(1) == b"" and clock.later[1][2].cancelled
    assert throttled.refused_count == 2
    first[1].close()
    second[1].close()


def test_without_room_it_is_closed_at_once() -> None:
    throttled = ThrottledConnections(lambda ip, broker_id: 500, Clock())
    ours, theirs = pair()
    assert throttled.refused(ours, "10.0.0.1", 0, room=0)
    assert theirs.recv(1) == b"" and len(throttled) == 0
    theirs.close()

"""Sessions: deadlines on a monotonic clock, and which connection speaks for whom."""

from tailrace_controller.sessions.liveness import Sessions

BROKER = ("broker", 0, 10)
GATEWAY = ("gateway", 0, 11)


def test_a_session_ends_when_nothing_was_heard_for_the_timeout() -> None:
    sessions = Sessions(timeout_ms=9000)
    sessions.touch(BROKER, "a", now_ms=0)
    sessions.touch(GATEWAY, "b", now_ms=1000)
    sessions.touch(BROKER, "a", now_ms=5000)
    assert sessions.next_deadline_ms() == 10_000
    assert sessions.overdue(9_999) == []
    assert sessions.overdue(10_000) == [GATEWAY]
    sessions.end(GATEWAY)
    assert sessions.next_deadline_ms() == 14_000


def test_a_broken_connection_raises_suspicion_only_if_it_was_the_newest() -> None:
    sessions = Sessions(9000)
    old, new = object(), object()
    sessions.touch(BROKER, old, 0)
    sessions.touch(BROKER, new, 10)
    assert sessions.on_connection_lost(old) == []
    assert sessions.on_connection_lost(new) == [BROKER]
    assert sessions.unconnected() == [BROKER]
    assert sessions.on_connection_lost(new) == []


def test_a_new_epoch_ends_the_sessions_of_earlier_ones() -> None:
    sessions = Sessions(9000)
    sessions.touch(("broker", 0, 10), "a", 0)
    sessions.touch(("broker", 0, 20), "b", 5)
    assert sessions.overdue(100_000) == [("broker", 0, 20)]
    assert not sessions.is_connected("broker", 0, besides="b")


def test_only_another_open_connection_makes_a_registration_a_duplicate() -> None:
    sessions = Sessions(9000)
    sessions.touch(BROKER, "mine", 0)
    assert sessions.is_connected("broker", 0, besides="yours")
    assert not sessions.is_connected("broker", 0, besides="mine")
    assert not sessions.is_connected("broker", 1, besides="yours")
    assert not sessions.is_connected("gateway", 0, besides="yours")


def test_after_a_controllers_start_everybody_known_has_a_whole_session() -> None:
    sessions = Sessions(9000)
    sessions.touch(GATEWAY, "b", 0)
    sessions.keep([BROKER], now_ms=500)
    assert sessions.overdue(9_499) == []
    assert sessions.overdue(9_500) == [BROKER]
    assert sessions.unconnected() == [BROKER]
    assert sessions.next_deadline_ms() == 9_500


def test_without_sessions_there_is_no_deadline() -> None:
    assert Sessions(9000).next_deadline_ms() is None

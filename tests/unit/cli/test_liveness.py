"""When `up` takes a child for hung: by the time in which it could have answered, not by the clock alone."""

import selectors
import socket

from tailrace.cli.liveness import LOOKED_EVERY_MS, NOTICED_MS, OVERDUE_MS, Liveness, LivenessStep, Probe


def looks(liveness: Liveness, from_ms: float, until_ms: float) -> list[LivenessStep]:
    """What is to be done, second by second."""
    steps = range(int((until_ms - from_ms) / LOOKED_EVERY_MS) + 1)
    return [liveness.look(from_ms + step * LOOKED_EVERY_MS) for step in steps]


def test_a_child_that_answers_is_left_alone() -> None:
    liveness = Liveness()
    for second in range(100):
        liveness.asked(second * 1000)
        assert liveness.look(second * 1000 + 900) is LivenessStep.NOTHING
        assert not liveness.answered()


def test_a_silence_is_told_once_and_then_ended() -> None:
    liveness = Liveness()
    liveness.asked(0)
    said = looks(liveness, 0, OVERDUE_MS)
    assert said.count(LivenessStep.TELL) == 1
    assert said.index(LivenessStep.TELL) == NOTICED_MS / LOOKED_EVERY_MS
    assert said[-1] is LivenessStep.KILL
    assert LivenessStep.KILL not in said[:-1]


def test_a_child_that_comes_back_is_told_of_and_begins_anew() -> None:
    liveness = Liveness()
    liveness.asked(0)
    looks(liveness, 0, NOTICED_MS)
    assert liveness.answered()
    liveness.asked(NOTICED_MS)
    assert looks(liveness, NOTICED_MS, 2 * NOTICED_MS - 1000) == [LivenessStep.NOTHING] * 5


def test_nobody_is_blamed_for_the_time_in_which_up_itself_stood_still() -> None:
    liveness = Liveness()
    liveness.asked(0)
    assert liveness.look(1000) is LivenessStep.NOTHING
    assert liveness.look(3_600_000) is LivenessStep.NOTHING


class Health:
    """A health page that answers, hangs up or is silent."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"

    def turn(self) -> None:
        """What the supervisor's loop does with one event."""
        for key, _ in self.selector.select(5):
            key.data()

    def close(self) -> None:
        self.listening.close()
        self.selector.close()


def test_a_probe_asks_and_takes_any_answer_for_life() -> None:
    health = Health()
    probe = Probe(health.selector, health.address)
    for answer in (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", b""):
        assert probe.look(0) is LivenessStep.NOTHING
        health.turn()
        child, _ = health.listening.accept()
        assert child.recv(100).startswith(b"GET /healthz ")
        assert probe.look(NOTICED_MS) is LivenessStep.NOTHING  # it may have stood still meanwhile
        child.sendall(answer)
        child.close()
        health.turn()
        assert not health.selector.get_map()
    health.close()


def test_a_probe_of_a_stopped_child_sees_its_silence_and_its_return() -> None:
    health = Health()
    probe = Probe(health.selector, health.address)
    said = []
    for second in range(8):
        said.append(probe.look(second * 1000))
        if not second:
            health.turn()
    assert said.count(LivenessStep.TELL) == 1
    child, _ = health.listening.accept()  # it goes on
    child.recv(100)
    child.close()
    health.turn()
    assert probe.came_back
    probe.close()
    health.close()


def test_a_refused_question_is_no_silence() -> None:
    health = Health()
    health.listening.close()
    probe = Probe(health.selector, health.address)
    for second in range(20):
        assert probe.look(second * 1000) is LivenessStep.NOTHING
        health.turn()
    probe.close()
    health.close()

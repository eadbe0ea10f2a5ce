"""Where replicas of the metadata log are, as the active controller heard it."""

from tailrace.clock import ManualClock
from tailrace.net.address import Address
from tailrace_controller.election.quorum import Quorum, ReplicaState, Standby

START_MS = ManualClock().wall_ms()


def test_a_replica_that_was_heard_has_caught_up_when_it_had_all_there_was() -> None:
    position = ReplicaState()
    assert (position.log_end_offset, position.last_fetch_ms, position.caught_up_ms) == (-1, -1, -1)
    position = position.moved(5, leader_end_offset=7, now_ms=10)
    assert position == ReplicaState(5, 10, -1)
    position = position.moved(7, leader_end_offset=7, now_ms=20)
    assert position == ReplicaState(7, 20, 20)
    assert position.moved(8, leader_end_offset=9, now_ms=30) == ReplicaState(8, 30, 20)


def test_a_brokers_heartbeat_tells_the_last_offset_it_has() -> None:
    quorum = Quorum(ManualClock(), Address("/own", -1), [])
    quorum.observed(3, metadata_offset=6, leader_end_offset=7)
    quorum.observed(4, metadata_offset=-1, leader_end_offset=7)
    assert quorum.observers == {3: ReplicaState(7, START_MS, START_MS), 4: ReplicaState(0, START_MS, -1)}


def test_another_term_begins_without_what_was_heard() -> None:
    quorum = Quorum(ManualClock(), Address("/own", -1), [])
    quorum.observed(3, 6, 7)
    quorum.standbys[1] = Standby(ReplicaState(7))
    quorum.begin()
    assert not quorum.observers
    assert not quorum.standbys


async def test_a_controller_asks_neither_itself_nor_those_that_are_away(tmp_path: object) -> None:
    quorum = Quorum(
        ManualClock(), Address(f"{tmp_path}/own", -1), [Address(f"{tmp_path}/{n}", -1) for n in ("own", "1")]
    )
    await quorum.ask_standbys(0, 7)
    assert not quorum.standbys

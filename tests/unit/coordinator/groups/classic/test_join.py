"""JoinGroup: table of request -> answer, and who is in which generation afterwards."""

from typing import Any

import pytest

from support.groups import RANGE, Driver
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.classic.pending import GROUP_BYTES, ID_BYTES
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.group import Leaver


def stable(driver: Driver, **options: Any) -> str:
    """A group g of one stable member."""
    member, token = driver.joined(**options)
    driver.advance(0)
    assert driver.answers[token].error_code == 0
    driver.sync("g", member, driver.answers[token].generation_id, {member: b"all"})
    return member


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"x" * 1_000_001),)}, ErrorCode.INVALID_REQUEST),
        ({}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"version": 4}, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_a_join_that_is_answered_at_once_without_a_group(options: Any, code: ErrorCode) -> None:
    driver = Driver()
    answer = driver.answers[driver.join(**options)]
    assert answer.error_code == code
    assert answer.generation_id == -1


def test_a_refused_join_creates_no_group() -> None:
    driver = Driver()
    driver.join(protocols=())
    assert driver.machine.groups == {}


def test_a_member_id_is_made_of_client_id_or_instance_id() -> None:
    driver = Driver()
    assert driver.answers[driver.join(client_id="app")].member_id.startswith("app-uuid")
    token = driver.join("h", instance="one")
    driver.advance(0)
    assert driver.answers[token].member_id.startswith("one-uuid")


def test_before_v4_the_first_join_makes_a_member() -> None:
    driver = Driver()
    token = driver.join(version=3)
    driver.advance(0)
    assert driver.answers[token].generation_id == 1


def test_v0_takes_the_session_timeout_for_the_rebalance_timeout() -> None:
    driver = Driver()
    driver.join(version=0, session_ms=7_000, rebalance_ms=-1)
    assert driver.classic("g").rebalance_timeout_ms == 7_000


def test_only_the_leader_learns_the_members() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100))
    one, first = driver.joined(protocols=(("range", b"1"),))
    two, second = driver.joined(protocols=(("range", b"2"),))
    assert driver.pending(first)
    driver.advance(200)
    leader, follower = driver.answers[first], driver.answers[second]
    assert leader.leader == follower.leader == one
    assert [(m.member_id, m.metadata) for m in leader.members] == [(one, b"1"), (two, b"2")]
    assert not follower.members
    assert (leader.protocol_name, leader.protocol_type) == ("range", "consumer")


def test_the_protocol_with_most_votes_that_all_speak_wins() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100))
    _, token = driver.joined(protocols=(("only-mine", b""), ("a", b""), ("b", b"")))
    driver.joined(protocols=(("b", b""), ("a", b"")))
    driver.joined(protocols=(("b", b""), ("a", b"")))
    driver.advance(300)
    assert driver.answers[token].protocol_name == "b"


def test_a_member_without_a_common_protocol_is_refused() -> None:
    driver = Driver()
    stable(driver)
    answer = driver.answers[driver.join(protocols=(("sticky", b""),))]
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = driver.answers[driver.join(protocol_type="connect")]
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_initial_delay_is_prolonged_by_new_members_up_to_the_rebalance_timeout() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    _, first = driver.joined(rebalance_ms=8_000)
    for _ in range(4):
        driver.advance(2_000)
        assert driver.pending(first) == (driver.now_ms % 100_000 < 8_000)
        driver.joined(rebalance_ms=8_000)
    assert not driver.pending(first)


def test_without_new_members_the_initial_delay_ends_the_join_phase() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    _, token = driver.joined()
    driver.advance(2_999)
    assert driver.pending(token)
    driver.advance(1)
    assert driver.answers[token].generation_id == 1


def test_a_join_in_a_stable_group_rebalances_until_all_members_came_again() -> None:
    driver = Driver()
    one = stable(driver)
    two, newcomer = driver.joined()
    assert driver.heartbeat("g", one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.pending(newcomer)
    again = driver.join(member_id=one)
    assert driver.answers[again].generation_id == driver.answers[newcomer].generation_id == 2
    assert driver.answers[again].leader == one
    assert {m.member_id for m in driver.answers[again].members} == {one, two}


def test_a_member_that_does_not_rejoin_in_time_is_out() -> None:
    driver = Driver()
    one = stable(driver, session_ms=100_000)
    two, newcomer = driver.joined(session_ms=100_000)
    driver.advance(60_000)
    assert driver.answers[newcomer].leader == two
    assert driver.heartbeat("g", one, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_rejoin_in_time_stays_but_loses_the_lead() -> None:
    driver = Driver()
    token = driver.join(instance="i", session_ms=100_000)
    driver.advance(0)
    one = driver.answers[token].member_id
    driver.sync("g", one, 1, {one: b"all"})
    two, newcomer = driver.joined(session_ms=100_000)
    driver.advance(60_000)
    answer = driver.answers[newcomer]
    assert answer.leader == two
    assert {m.group_instance_id for m in answer.members} == {"i", None}


def test_when_no_static_member_rejoins_the_rebalance_waits_on() -> None:
    driver = Driver()
    token = driver.join(instance="i", session_ms=200_000)
    driver.advance(0)
    one = driver.answers[token].member_id
    driver.sync("g", one, 1, {one: b"all"})
    two, newcomer = driver.joined(session_ms=200_000)
    driver.leave("g", Leaver(two))
    assert driver.answers[newcomer].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.advance(60_000)
    assert driver.describe("g").state == "PreparingRebalance"
    assert driver.heartbeat("g", one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(60_000)
    again = driver.join(member_id=one, instance="i", session_ms=200_000)
    assert driver.answers[again].generation_id == 2


def test_a_repeated_join_with_the_same_metadata_changes_nothing() -> None:
    driver = Driver()
    one = stable(driver)
    two, _ = driver.joined()
    driver.join(member_id=one)
    repeated = driver.answers[driver.join(member_id=two)]  # CompletingRebalance: its answer was lost
    assert (repeated.generation_id, repeated.leader, len(repeated.members)) == (2, one, 0)
    leaders = driver.answers[driver.join(member_id=one)]
    assert len(leaders.members) == 2
    driver.sync("g", one, 2, {})
    driver.sync("g", two, 2)
    driver.hold = True
    asked = driver.join(member_id=two)  # Stable: a follower may ask again
    assert driver.pending(asked), "a coordinator that was replaced would answer it"
    driver.release()
    follower = driver.answers[asked]
    assert (follower.generation_id, len(follower.members)) == (2, 0)
    assert driver.describe("g").state == "Stable"


@pytest.mark.parametrize("rejoin", [{}, {"protocols": (("range", b"changed"),)}])
def test_a_leader_that_joins_again_rebalances_a_stable_group(rejoin: Any) -> None:
    driver = Driver()
    one = stable(driver)
    answer = driver.answers[driver.join(member_id=one, **rejoin)]
    assert answer.generation_id == 2


def test_a_follower_that_changes_its_metadata_rebalances() -> None:
    driver = Driver()
    one = stable(driver)
    two, _ = driver.joined()
    driver.join(member_id=one)
    token = driver.join(member_id=two, protocols=(("range", b"new topics"),))
    assert driver.pending(token)
    assert driver.describe("g").state == "PreparingRebalance"


def test_a_second_join_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100))
    member, first = driver.joined()
    second = driver.join(member_id=member)
    assert driver.answers[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(100)
    assert driver.answers[second].error_code == 0


def test_the_group_has_a_largest_size() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100, group_max_size=2))
    waiting = [driver.joined()[1] for _ in range(2)]
    assert driver.answers[driver.join()].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.advance(500)
    assert [driver.answers[token].error_code for token in waiting] == [0, 0]
    assert driver.answers[driver.join()].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_pending_members_are_bounded_and_expire_with_their_session() -> None:
    driver = Driver(GroupConfig(max_pending_members=1))
    member = driver.answers[driver.join()].member_id
    assert driver.answers[driver.join()].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.advance(10_000)
    assert driver.answers[driver.join(member_id=member)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.answers[driver.join()].error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_of_the_ids_that_nobody_uses_the_oldest_are_forgotten_over_all_groups() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, max_pending_bytes=10 * (ID_BYTES + GROUP_BYTES)))
    given = [(f"g{number}", driver.answers[driver.join(f"g{number}")].member_id) for number in range(100)]
    pending = {group_id for group_id in driver.machine.groups if driver.classic(group_id).pending_members}
    assert pending == driver.machine.groups.keys() and 5 < len(pending) <= 10  # and no group is left without one
    assert driver.machine.pending_ids.size_bytes <= 10 * (ID_BYTES + GROUP_BYTES)
    timers = {key for key in driver.deadlines if key[0] == "heartbeat"}  # type: ignore[index]
    assert len(timers) == len(pending)
    codes = [driver.answers[driver.join(group_id, member_id)].error_code for group_id, member_id in given[:90]]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 90
    group_id, member_id = given[-1]
    used = driver.join(group_id, member_id)
    driver.advance(1)
    assert driver.answers[used].error_code == ErrorCode.NONE


def test_an_id_that_is_forgotten_is_waited_for_no_longer_and_its_group_stays_if_it_has_members() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, max_pending_bytes=3 * (ID_BYTES + GROUP_BYTES)))
    member = stable(driver)
    driver.join()  # an id of g
    rejoined = driver.join(member_id=member, protocols=(("range", b"new"),))
    assert driver.pending(rejoined)
    for number in range(10):
        driver.join(f"other{number}")
    assert driver.answers[rejoined].error_code == ErrorCode.NONE and not driver.classic("g").pending_members


def test_ids_that_are_used_count_no_longer() -> None:
    driver = Driver()
    for number in range(100):
        driver.joined(f"g{number}")
    assert driver.machine.pending_ids.size_bytes == 0


def test_protocols_of_one_member_and_members_of_one_group_are_bounded() -> None:
    """A request of 100,000 protocols held a coordinator for half a second, and so did a group of 100,000 members."""
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100, max_protocols=2, max_members=2))
    three = driver.join(protocols=[(name, b"") for name in "abc"])
    assert driver.answers[three].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for _ in range(2):
        driver.joined()
    assert driver.answers[driver.join()].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_metadata_of_all_members_is_bounded() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100, max_group_metadata_bytes=30))
    driver.joined(protocols=(("range", b"x" * 20),))
    answer = driver.answers[driver.join(protocols=(("range", b"x" * 20),))]
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_rebalance_waits_for_a_pending_member() -> None:
    driver = Driver()
    one = stable(driver)
    pending = driver.answers[driver.join()].member_id
    _, newcomer = driver.joined()
    driver.join(member_id=one)
    assert driver.pending(newcomer)
    driver.join(member_id=pending)
    assert driver.answers[newcomer].generation_id == 2


def test_a_new_member_that_never_takes_its_answer_is_forgotten_after_five_minutes() -> None:
    driver = Driver()
    one = stable(driver, rebalance_ms=900_000, session_ms=1_000_000)
    _, token = driver.joined(rebalance_ms=900_000, session_ms=1_000_000)
    driver.advance(300_000)
    assert driver.answers[token].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("g", one, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# -- static members (KIP-345) -----------------------------------------------------------------------------------------


def static(driver: Driver, instance: str, **options: Any) -> str:
    token = driver.join(instance=instance, **options)
    driver.advance(0)
    member: str = driver.answers[token].member_id
    driver.sync("g", member, driver.answers[token].generation_id, {member: b"mine"}, instance=instance)
    return member


def test_a_static_member_that_comes_back_keeps_its_assignment_without_a_rebalance() -> None:
    driver = Driver()
    old = static(driver, "i")
    answer = driver.answers[driver.join(instance="i")]
    assert (answer.generation_id, answer.error_code) == (1, 0)
    assert answer.member_id != old
    sync = driver.answers[driver.sync("g", answer.member_id, 1, instance="i")]
    assert sync.assignment == b"mine"
    assert driver.reloaded().describe("g").members[0].member_id == answer.member_id


@pytest.mark.parametrize(("version", "skips", "members"), [(9, True, 1), (8, False, 0)])
def test_a_leader_that_comes_back_is_told_to_skip_the_assignment(version: int, skips: bool, members: int) -> None:
    driver = Driver()
    old = static(driver, "i")
    answer = driver.answers[driver.join(instance="i", version=version)]
    assert (answer.skip_assignment, len(answer.members)) == (skips, members)
    assert (answer.leader == old) is not skips


def test_the_old_id_of_a_static_member_is_fenced_everywhere() -> None:
    driver = Driver()
    old = static(driver, "i")
    driver.join(instance="i")
    assert driver.heartbeat("g", old, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.answers[driver.sync("g", old, 1, instance="i")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.answers[driver.join(member_id=old, instance="i")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave("g", Leaver(old, "i"))[0][1] is ErrorCode.FENCED_INSTANCE_ID


def test_whoever_waits_under_the_old_id_hears_of_the_fence_at_once() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100))
    first = driver.join(instance="i")
    driver.join(instance="i")
    assert driver.answers[first].error_code == ErrorCode.FENCED_INSTANCE_ID
    driver.advance(300)
    two = driver.join(instance="j")
    driver.join(member_id=driver.answers[3 - 1].member_id, instance="i")
    waiting = driver.sync("g", driver.answers[two].member_id, 2, instance="j")
    driver.join(instance="j")
    assert driver.answers[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_replaced_while_the_leader_assigns_rebalances() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=100))
    driver.join(instance="i")
    driver.join(instance="j")
    driver.advance(300)
    driver.join(instance="j")
    assert driver.describe("g").state == "PreparingRebalance"


def test_a_static_member_that_comes_back_with_other_protocols_rebalances() -> None:
    driver = Driver()
    static(driver, "i", protocols=(("a", b""), ("b", b"")))
    answer = driver.answers[driver.join(instance="i", protocols=(("b", b""), ("a", b"")))]
    assert (answer.generation_id, answer.protocol_name) == (2, "b")


@pytest.mark.parametrize(
    ("member", "instance", "code"),
    [
        ("mine", "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("other", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_id_must_belong_to_its_instance(member: str, instance: str | None, code: ErrorCode) -> None:
    driver = Driver()
    mine = static(driver, "i")
    answer = driver.answers[driver.join(member_id=mine if member == "mine" else member, instance=instance)]
    assert answer.error_code == code


def test_a_member_of_an_empty_group_must_ask_for_a_new_id() -> None:
    driver = Driver()
    member = stable(driver)
    driver.leave("g", Leaver(member))
    assert driver.answers[driver.join(member_id=member)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.answers[driver.join(protocols=RANGE)].error_code == ErrorCode.MEMBER_ID_REQUIRED

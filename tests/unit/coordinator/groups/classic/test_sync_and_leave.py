"""SyncGroup, Heartbeat, LeaveGroup and the ends of sessions."""

from typing import Any

import pytest

from support.groups import Driver
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.group import Leaver


def pair(config: GroupConfig | None = None, **options: Any) -> tuple[Driver, str, str]:
    """Two members of generation 2 that have joined and not synced; the first leads."""
    driver = Driver(config)
    one, first = driver.joined(**options)
    driver.advance(0)
    assert driver.answers[first].generation_id == 1
    driver.sync("g", one, 1, {one: b"all"})
    two, second = driver.joined(**options)
    driver.join(member_id=one, **options)
    assert driver.answers[second].generation_id == 2
    return driver, one, two


def stable_pair(**options: Any) -> tuple[Driver, str, str]:
    driver, one, two = pair(**options)
    driver.sync("g", two, 2)
    driver.sync("g", one, 2, {one: b"1", two: b"2"})
    return driver, one, two


def test_followers_wait_for_the_leaders_assignments() -> None:
    driver, one, two = pair()
    follower = driver.sync("g", two, 2)
    assert driver.pending(follower)
    leader = driver.sync("g", one, 2, {one: b"1", two: b"2"})
    assert (driver.answers[leader].assignment, driver.answers[follower].assignment) == (b"1", b"2")
    assert driver.answers[leader].protocol_name == "range"
    assert driver.describe("g").state == "Stable"


def test_assignments_leave_only_when_they_are_committed() -> None:
    driver, one, two = pair()
    follower = driver.sync("g", two, 2)
    driver.hold = True
    leader = driver.sync("g", one, 2, {one: b"1", two: b"2"})
    assert driver.pending(leader)
    assert driver.pending(follower)
    driver.release()
    assert driver.answers[follower].assignment == b"2"


def test_a_member_the_leader_left_out_gets_an_empty_assignment() -> None:
    driver, one, two = pair()
    driver.sync("g", one, 2, {one: b"1"})
    assert driver.answers[driver.sync("g", two, 2)].assignment == b""


def test_a_follower_that_syncs_late_is_answered_at_once() -> None:
    driver, one, two = pair()
    driver.sync("g", one, 2, {one: b"1", two: b"2"})
    assert driver.answers[driver.sync("g", two, 2)].assignment == b"2"


def test_assignments_of_a_follower_are_ignored() -> None:
    driver, _, two = pair()
    assert driver.pending(driver.sync("g", two, 2, {two: b"mine"}))


@pytest.mark.parametrize(
    ("group", "member", "generation", "more", "code"),
    [
        ("", "one", 2, {}, ErrorCode.INVALID_GROUP_ID),
        ("unknown", "one", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "nobody", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "one", 1, {}, ErrorCode.ILLEGAL_GENERATION),
        ("g", "one", 3, {}, ErrorCode.ILLEGAL_GENERATION),
        ("g", "one", 2, {"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "one", 2, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("g", "one", 2, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_refused_sync(group: str, member: str, generation: int, more: Any, code: ErrorCode) -> None:
    driver, one, _ = pair()
    token = driver.sync(group, one if member == "one" else member, generation, {}, **more)
    assert driver.answers[token].error_code == code


def test_a_sync_of_an_empty_group_is_of_an_unknown_member() -> None:
    driver, one, two = stable_pair()
    driver.leave("g", Leaver(one), Leaver(two))
    assert driver.answers[driver.sync("g", one, 3)].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_during_a_rebalance_is_told_to_join() -> None:
    driver, one, _ = stable_pair()
    driver.joined()
    assert driver.answers[driver.sync("g", one, 2)].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_sends_waiting_followers_back_to_join() -> None:
    driver, one, two = pair()
    waiting = driver.sync("g", two, 2)
    driver.join(member_id=one, protocols=(("range", b"new"),))
    assert driver.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_sync_of_a_member_takes_the_place_of_the_first() -> None:
    driver, one, two = pair()
    first = driver.sync("g", two, 2)
    second = driver.sync("g", two, 2)
    assert driver.answers[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync("g", one, 2, {two: b"2"})
    assert driver.answers[second].assignment == b"2"


def test_assignments_too_large_for_the_log_are_refused_and_the_group_rebalances() -> None:
    driver, one, _ = pair(GroupConfig(group_initial_rebalance_delay_ms=0, max_record_bytes=5_000))
    token = driver.sync("g", one, 2, {one: b"x" * 6_000})
    assert driver.answers[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.describe("g").state == "PreparingRebalance"


def test_who_does_not_sync_within_the_rebalance_timeout_is_expelled() -> None:
    driver, one, two = pair(session_ms=600_000)
    driver.sync("g", one, 2, {one: b"1"})
    driver.advance(60_000)
    assert driver.heartbeat("g", two, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("g", one, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_of_a_leader_that_does_not_sync_are_sent_to_join() -> None:
    driver, one, two = pair(session_ms=600_000)
    waiting = driver.sync("g", two, 2)
    driver.advance(60_000)
    assert driver.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat("g", one, 2) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("group", "member", "generation", "instance", "code"),
    [
        ("", "one", 2, None, ErrorCode.INVALID_GROUP_ID),
        ("unknown", "one", 2, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "nobody", 2, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "one", 2, "i", ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "one", 1, None, ErrorCode.ILLEGAL_GENERATION),
        ("g", "one", 2, None, ErrorCode.NONE),
    ],
)
def test_heartbeats(group: str, member: str, generation: int, instance: str | None, code: ErrorCode) -> None:
    driver, one, _ = stable_pair()
    assert driver.heartbeat(group, one if member == "one" else member, generation, instance) is code


def test_a_heartbeat_before_the_assignment_is_welcome() -> None:
    driver, one, _ = pair()
    assert driver.heartbeat("g", one, 2) is ErrorCode.NONE


def test_a_member_that_falls_silent_is_out_after_its_session() -> None:
    driver, one, two = stable_pair()
    for _ in range(4):
        driver.advance(3_000)
        driver.heartbeat("g", one, 2)
    assert [m.member_id for m in driver.describe("g").members] == [one]
    assert driver.heartbeat("g", two, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.describe("g").state == "PreparingRebalance"


def test_a_member_that_waits_for_us_is_not_silent() -> None:
    driver, one, _ = stable_pair()
    waiting = driver.join(member_id=one, session_ms=10_000, rebalance_ms=60_000, protocols=(("range", b"other"),))
    driver.advance(9_999)
    assert driver.pending(waiting)
    driver.advance(20_000)  # the other one's session ended meanwhile: the join phase is complete
    assert driver.answers[waiting].generation_id == 3


def test_when_the_last_member_falls_silent_the_group_is_empty_and_says_so_in_the_log() -> None:
    driver, _, _ = stable_pair()
    driver.advance(20_000)
    driver.advance(60_000)
    assert driver.describe("g").state == "Empty"
    assert driver.reloaded().describe("g").state == "Empty"


# -- LeaveGroup -----------------------------------------------------------------------------------------------


def test_a_member_that_leaves_lets_the_others_rebalance() -> None:
    driver, one, two = stable_pair()
    assert driver.leave("g", Leaver(one)) == [(Leaver(one), ErrorCode.NONE)]
    assert driver.heartbeat("g", two, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.answers[driver.join(member_id=two)].leader == two


def test_several_members_leave_with_one_request_and_one_rebalance() -> None:
    driver, one, two = stable_pair()
    codes = [code for _, code in driver.leave("g", Leaver(one), Leaver("nobody"), Leaver(two))]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert driver.describe("g").state == "Empty"
    assert driver.classic("g").generation_id == 3


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    driver = Driver()
    driver.join(instance="i")
    driver.advance(0)
    assert driver.leave("g", Leaver("", "i"))[0][1] is ErrorCode.NONE
    assert driver.describe("g").members == ()
    assert driver.leave("g", Leaver("", "i"))[0][1] is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("g", Leaver(""))[0][1] is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("group", "code"), [("unknown", ErrorCode.UNKNOWN_MEMBER_ID)])
def test_leaving_a_group_that_does_not_exist(group: str, code: ErrorCode) -> None:
    assert Driver().leave(group, Leaver("m")) == [(Leaver("m"), code)]
    assert Driver().leave("", Leaver("m")) is ErrorCode.INVALID_GROUP_ID


def test_a_pending_member_may_leave_and_no_longer_holds_the_rebalance_up() -> None:
    driver, one, two = stable_pair()
    pending = driver.answers[driver.join()].member_id
    waiting = driver.join(member_id=one, protocols=(("range", b"new"),))
    driver.join(member_id=two)
    assert driver.pending(waiting)
    assert driver.leave("g", Leaver(pending))[0][1] is ErrorCode.NONE
    assert driver.answers[waiting].generation_id == 3


def test_a_member_that_leaves_while_it_waits_is_told_so() -> None:
    driver, one, _ = stable_pair()
    waiting = driver.join(member_id=one, protocols=(("range", b"new"),))
    driver.leave("g", Leaver(one))
    assert driver.answers[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_during_the_assignment_is_told_so() -> None:
    driver, _, two = pair()
    waiting = driver.sync("g", two, 2)
    driver.leave("g", Leaver(two))
    assert driver.answers[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- what a new coordinator finds -----------------------------------------------------------------------------


def test_a_reloaded_group_is_as_it_was_and_its_sessions_begin_anew() -> None:
    driver, one, two = stable_pair()
    after = driver.reloaded()
    assert after.describe("g") == driver.describe("g")
    after.advance(9_000)
    assert after.heartbeat("g", one, 2) is ErrorCode.NONE
    after.advance(2_000)
    assert after.heartbeat("g", two, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_under_way_is_forgotten_and_its_members_join_again() -> None:
    driver, one, two = stable_pair()
    driver.join(member_id=one, protocols=(("range", b"new"),))
    after = driver.reloaded()
    assert after.describe("g").state == "Stable"
    assert after.heartbeat("g", two, 2) is ErrorCode.NONE
    first = after.join(member_id=one, protocols=(("range", b"new"),))
    after.join(member_id=two)
    assert after.answers[first].generation_id == 3


def test_a_reloaded_group_above_its_largest_size_rebalances() -> None:
    driver, one, two = stable_pair()
    driver.config = GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=1)
    after = driver.reloaded()
    after.advance(0)
    assert after.describe("g").state == "PreparingRebalance"
    kept = after.join(member_id=two)
    assert after.answers[after.join(member_id=one)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    after.advance(60_000)
    assert after.answers[kept].leader == two

"""OffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups, ListGroups, and what expires."""

import pytest

from support.groups import START_MS, Driver, member_of
from tailrace.coordination.group_records import OffsetCommitted, decode
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.group import Leaver
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit

RETENTION_MS = 7 * 24 * 3600 * 1000
SIMPLE = CommitHeader("simple", -1, "", None, 9)


def test_a_standalone_consumer_commits_without_a_group() -> None:
    driver = Driver()
    assert driver.commit(SIMPLE, OffsetToCommit("t", 0, 42, 7, "mine")) == [ErrorCode.NONE]
    found = driver.fetch("simple", ("t", 0), ("t", 1))
    assert list(found) == [("t", 0)]
    offset = found["t", 0]
    assert (offset.offset, offset.leader_epoch, offset.metadata) == (42, 7, "mine")
    assert driver.describe("simple").state == "Empty"


def test_committed_offsets_survive_the_coordinator() -> None:
    driver = Driver()
    driver.commit(SIMPLE, OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 2))
    driver.commit(SIMPLE, OffsetToCommit("t", 0, 3))
    assert {key: o.offset for key, o in driver.reloaded().fetch("simple").items()} == {("t", 0): 3, ("t", 1): 2}


def test_a_commit_is_acknowledged_and_shown_only_when_it_is_in_the_log() -> None:
    driver = Driver()
    driver.hold = True
    assert driver.commit(SIMPLE, OffsetToCommit("t", 0, 1)) is None
    assert driver.fetch("simple", ("t", 0)) is None
    driver.release()
    assert driver.answers[1] == [ErrorCode.NONE]
    assert driver.answers[2]["t", 0].offset == 1


def test_a_group_nobody_knows_has_no_offsets_and_no_error() -> None:
    assert Driver().fetch("nobody", ("t", 0)) == {}
    assert Driver().fetch("nobody") == {}


def test_metadata_above_its_bound_is_refused_alone() -> None:
    driver = Driver()
    codes = driver.commit(
        SIMPLE, OffsetToCommit("t", 0, 1, metadata="x" * 4097), OffsetToCommit("t", 1, 1, metadata="x" * 4096)
    )
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert list(driver.fetch("simple")) == [("t", 1)]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (CommitHeader("unknown", 1, "m", None, 8), ErrorCode.ILLEGAL_GENERATION),
        (CommitHeader("unknown", 1, "m", None, 9), ErrorCode.GROUP_ID_NOT_FOUND),
        (CommitHeader("g", -1, "", None, 9), ErrorCode.UNKNOWN_MEMBER_ID),
        (CommitHeader("g", 1, "nobody", None, 9), ErrorCode.UNKNOWN_MEMBER_ID),
        (CommitHeader("g", 1, "", None, 9), ErrorCode.UNKNOWN_MEMBER_ID),
        (CommitHeader("g", -1, "", "i", 9), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_refused_commit(request_: CommitHeader, code: ErrorCode) -> None:
    driver = Driver()
    member_of(driver)
    assert driver.commit(request_, OffsetToCommit("t", 0, 1)) is code
    assert driver.fetch("g") == {}


@pytest.mark.parametrize(("generation", "code"), [(0, ErrorCode.ILLEGAL_GENERATION), (2, ErrorCode.ILLEGAL_GENERATION)])
def test_a_commit_of_another_generation_is_refused(generation: int, code: ErrorCode) -> None:
    driver = Driver()
    member = member_of(driver)
    assert driver.commit_as("g", member, generation, OffsetToCommit("t", 0, 1)) is code


def test_a_commit_of_the_old_generation_is_taken_while_a_rebalance_is_prepared_and_refused_when_it_completes() -> None:
    driver = Driver()
    member = member_of(driver)
    driver.joined()
    assert driver.commit_as("g", member, 1, OffsetToCommit("t", 0, 1)) == [ErrorCode.NONE]
    driver.join(member_id=member)
    assert driver.commit_as("g", member, 1, OffsetToCommit("t", 0, 2)) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit_as("g", member, 2, OffsetToCommit("t", 0, 2)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_was_replaced_cannot_commit() -> None:
    driver = Driver()
    token = driver.join(instance="i")
    driver.advance(0)
    old = driver.answers[token].member_id
    driver.sync("g", old, 1, {}, instance="i")
    driver.join(instance="i")
    assert driver.commit(CommitHeader("g", 1, old, "i", 9), OffsetToCommit("t", 0, 1)) is ErrorCode.FENCED_INSTANCE_ID


def test_a_commit_is_a_sign_of_life() -> None:
    driver = Driver()
    member = member_of(driver)
    for _ in range(4):
        driver.advance(6_000)
        assert driver.commit_as("g", member, 1, OffsetToCommit("t", 0, 1)) == [ErrorCode.NONE]


def test_an_administrator_may_set_offsets_of_an_empty_group() -> None:
    driver = Driver()
    member = member_of(driver)
    driver.leave("g", Leaver(member))
    assert driver.commit(CommitHeader("g", -1, "", None, 9), OffsetToCommit("t", 0, 1)) == [ErrorCode.NONE]


# -- OffsetDelete (KIP-496) -----------------------------------------------------------------------------------


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    driver = Driver()
    member = member_of(driver, "g", "read")
    driver.commit_as("g", member, 1, OffsetToCommit("read", 0, 1), OffsetToCommit("left", 0, 1))
    codes = driver.delete_offsets("g", ("read", 0), ("left", 0), ("never", 0))
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert list(driver.fetch("g")) == [("read", 0)]


def test_a_consumer_group_with_unreadable_subscriptions_counts_as_subscribed() -> None:
    driver = Driver()
    member, _ = driver.joined(protocols=(("range", b"?"),))
    driver.advance(0)
    driver.sync("g", member, 1, {})
    assert driver.delete_offsets("g", ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize(
    ("group", "code"), [("unknown", ErrorCode.GROUP_ID_NOT_FOUND), ("connect", ErrorCode.NON_EMPTY_GROUP)]
)
def test_a_refused_offset_delete(group: str, code: ErrorCode) -> None:
    driver = Driver()
    driver.joined("connect", protocol_type="connect")
    driver.advance(0)
    assert driver.delete_offsets(group, ("t", 0)) is code


def test_offsets_of_an_empty_group_can_be_deleted_for_good() -> None:
    driver = Driver()
    driver.commit(SIMPLE, OffsetToCommit("t", 0, 1))
    assert driver.delete_offsets("simple", ("t", 0)) == [ErrorCode.NONE]
    assert driver.reloaded().fetch("simple") == {}


# -- DeleteGroups, ListGroups, DescribeGroups -----------------------------------------------------------------


def test_a_group_with_members_is_not_deleted() -> None:
    driver = Driver()
    member_of(driver)
    assert driver.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    assert driver.delete_group("unknown") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_group_is_gone_with_its_offsets_also_after_a_reload() -> None:
    driver = Driver()
    member = member_of(driver)
    driver.commit_as("g", member, 1, OffsetToCommit("t", 0, 1))
    driver.leave("g", Leaver(member))
    assert driver.delete_group("g") is ErrorCode.NONE
    for after in (driver, driver.reloaded()):
        assert after.fetch("g") == {}
        assert after.describe("g") is None
        assert after.list_groups() == ()


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ((), (), {"g", "simple"}),
        (("stable",), (), {"g"}),
        (("empty", "stable"), (), {"g", "simple"}),
        (("dead",), (), set()),
        ((), ("classic",), {"g", "simple"}),
        ((), ("consumer",), set()),
    ],
)
def test_groups_are_listed_by_state_and_type(states: tuple[str, ...], types: tuple[str, ...], listed: set[str]) -> None:
    driver = Driver()
    member_of(driver)
    driver.commit(SIMPLE, OffsetToCommit("t", 0, 1))
    assert {group.group_id for group in driver.list_groups(*states, types=types)} == listed


def test_metadata_and_protocol_are_described_of_a_stable_group_only() -> None:
    driver = Driver()
    member, token = driver.joined(protocols=(("range", b"topics"),))
    driver.advance(0)
    before = driver.describe("g")
    assert (before.state, before.protocol, before.members[0].metadata) == ("CompletingRebalance", "", b"")
    driver.sync("g", member, driver.answers[token].generation_id, {member: b"mine"})
    after = driver.describe("g")
    assert (after.protocol, after.members[0].metadata, after.members[0].assignment) == ("range", b"topics", b"mine")
    assert after.members[0].client_host == "/127.0.0.1"


# -- expiry (KIP-211) -----------------------------------------------------------------------------------------


def test_offsets_of_a_standalone_consumer_expire_after_its_last_commit_and_the_group_goes_with_them() -> None:
    driver = Driver()
    driver.commit(SIMPLE, OffsetToCommit("old", 0, 1))
    driver.advance(1_000)
    driver.commit(SIMPLE, OffsetToCommit("new", 0, 1))
    driver.advance(RETENTION_MS - 1_000)
    driver.expire()
    assert list(driver.fetch("simple")) == [("new", 0)]
    driver.advance(1_000)
    driver.expire()
    assert driver.machine.groups == {}
    assert driver.reloaded().machine.groups == {}


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    driver = Driver()
    member = member_of(driver, session_ms=60_000)
    driver.commit_as("g", member, 1, OffsetToCommit("t", 0, 1))
    driver.advance(50_000)
    driver.leave("g", Leaver(member))
    driver.advance(RETENTION_MS - 1)
    driver.expire()
    assert driver.fetch("g")
    driver.advance(1)
    driver.expire()
    assert not driver.fetch("g")


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    driver = Driver()
    member = member_of(driver, "g", "read")
    driver.commit_as("g", member, 1, OffsetToCommit("read", 0, 1), OffsetToCommit("left", 0, 1))
    for _ in range(RETENTION_MS // 9_000_000):
        driver.now_ms += 9_000_000  # the sessions' timers stand still meanwhile
    driver.now_ms += 9_000_000
    driver.expire()
    assert list(driver.fetch("g")) == [("read", 0)]


def test_a_group_in_a_rebalance_loses_no_offsets() -> None:
    driver = Driver()
    member = member_of(driver)
    driver.commit_as("g", member, 1, OffsetToCommit("left", 0, 1))
    driver.joined()
    driver.now_ms += 2 * RETENTION_MS
    driver.expire()
    assert driver.fetch("g")


def test_a_retention_time_of_v2_to_v4_is_written_and_kept() -> None:
    driver = Driver()
    driver.commit(CommitHeader("simple", -1, "", None, 4, retention_time_ms=5_000), OffsetToCommit("t", 0, 1))
    key, value = driver.log[-1]
    assert value is not None
    assert value[:2] == b"\x00\x01"
    record = decode(key, value)
    assert isinstance(record, OffsetCommitted)
    assert record.expire_timestamp_ms == START_MS + 5_000
    driver.advance(5_000)
    driver.expire()
    assert driver.fetch("simple") == {}


def test_a_group_that_was_only_asked_for_is_forgotten() -> None:
    driver = Driver()
    driver.join()
    driver.expire()
    assert list(driver.machine.groups) == ["g"]
    driver.advance(10_000)
    driver.expire()
    assert driver.machine.groups == {}


def test_the_look_for_expired_offsets_repeats_by_itself() -> None:
    driver = Driver(GroupConfig(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=300))
    for expected_ms in (1_200, 2_700):  # the looks after the offset is a second old
        driver.commit(CommitHeader("g", -1, "", None, 9), OffsetToCommit("t", 0, 1))
        driver.advance(START_MS + expected_ms - 1 - driver.now_ms)
        assert driver.fetch("g") != {}
        driver.advance(1)
        assert driver.fetch("g") == {}
        driver.advance(300)

"""A classic group becomes a consumer group with its first such member, and a classic one again without the last."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from support.classic_members import ClassicMember, subscribed
from support.consumer_groups import Consumer, ConsumerDriver, refused, topic_id
from tailrace.coordination.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRecordRemoved,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    TopicPartitions,
)
from tailrace.coordination.group_records import GroupMetadata, GroupRemoved, decode
from tailrace.errors import ErrorCode
from tailrace.kafka.consumer_protocol import encode_assignment, partitions_of
from tailrace.state.limits import RECORDS_A_BATCH
from tailrace.state.shard import size_bytes
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.group import Leaver
from tailrace_coordinator.groups.offsets import OffsetToCommit

CANNOT = "Cannot upgrade classic group g to consumer group because "
ALL = {"t": {0, 1, 2, 3}}


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver({"t": 4})


def settle(driver: ConsumerDriver, *members: ClassicMember | Consumer) -> None:
    """Until no member owns anything else, or is told anything, any more."""
    for _ in range(12):
        driver.advance(1_000)
        before = [member.owned for member in members]
        answers = [member.step() if isinstance(member, ClassicMember) else member.beat() for member in members]
        waits = [each for each in answers if each is None or each is ErrorCode.REBALANCE_IN_PROGRESS]
        if before == [member.owned for member in members] and not waits:
            return
    raise AssertionError("the group does not settle")


def mixed(driver: ConsumerDriver, *, eager: bool = False) -> tuple[ClassicMember, Consumer]:
    """A settled group of a classic member and one of the consumer protocol."""
    classic, consumer = ClassicMember(driver, eager=eager), Consumer(driver, "new")
    classic.join()
    consumer.enter("t")
    settle(driver, classic, consumer)
    return classic, consumer


def kinds(driver: ConsumerDriver) -> list[str]:
    """The type and state of the group, here and where its log is read again."""
    return [f"{row.group_type} {row.state}" for at in (driver, driver.again()) for row in at.list_groups()]


def records(driver: ConsumerDriver, since: int) -> list[Any]:
    return [decode(key, value) for key, value in driver.log[since:]]


@pytest.mark.parametrize("eager", [True, False])
def test_a_group_is_upgraded_by_its_first_member_and_downgraded_without_it(
    driver: ConsumerDriver, *, eager: bool
) -> None:
    classic, consumer = mixed(driver, eager=eager)
    assert kinds(driver) == ["consumer Stable"] * 2
    assert sorted(classic.owned["t"] | consumer.owned["t"]) == [0, 1, 2, 3]
    assert len(classic.owned["t"]) == len(consumer.owned["t"]) == 2
    driver.beat("new", -1)
    assert kinds(driver) == ["classic PreparingRebalance", "classic Stable"]
    settle(driver, classic)
    assert classic.owned == ALL
    assert kinds(driver) == ["classic Stable"] * 2
    assert driver.classic("g").generation_id == 3


def test_the_records_of_an_upgrade_are_kafkas(driver: ConsumerDriver) -> None:
    classic = ClassicMember(driver)
    classic.join()
    since = len(driver.log)
    driver.enter("new", "t")
    member_id, partitions = classic.member_id, TopicPartitions(topic_id("t"), (0, 1, 2, 3))
    removed, metadata, group, target, targets, current, *later = records(driver, since)
    assert removed == GroupRemoved("g")
    assert isinstance(metadata, ConsumerGroupMemberMetadata)
    assert metadata.classic_member_metadata == (10_000, (("range", subscribed("t")),))
    assert (metadata.subscribed_topic_names, metadata.subscribed_topic_regex) == (("t",), "")
    assert (metadata.rebalance_timeout_ms, metadata.server_assignor) == (60_000, None)
    assert (type(group), group.epoch) == (ConsumerGroupMetadata, 1) and group.metadata_hash
    assert target == ConsumerGroupTargetAssignmentMember("g", member_id, (partitions,))
    assert targets == ConsumerGroupTargetAssignmentMetadata("g", 1)
    owned = partitions._replace(assignment_epochs=(1, 1, 1, 1))
    assert current == ConsumerGroupCurrentMemberAssignment("g", member_id, 1, 1, 0, (owned,), ())
    assert [record.member_id for record in later if isinstance(record, ConsumerGroupMemberMetadata)] == ["new"]


def test_the_records_of_a_downgrade_are_kafkas(driver: ConsumerDriver) -> None:
    classic, _ = mixed(driver)
    epoch, since = driver.group().group_epoch, len(driver.log)
    driver.beat("new", -1)
    *removed, group = records(driver, since)
    assert [record.key.key_type for record in removed] == [8, 8, 7, 7, 6, 5, 5, 3]
    assert all(isinstance(record, ConsumerGroupRecordRemoved) for record in removed)
    assert isinstance(group, GroupMetadata)
    assert (group.generation_id, group.protocol, group.leader) == (epoch, "range", classic.member_id)
    (member,) = group.members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)
    assert partitions_of(member.assignment) == [("t", index) for index in sorted(classic.owned["t"])]
    assert member.assignment[:2] == b"\0\1"  # the version of the member's subscription


def test_a_migration_is_in_the_log_whole_or_not_at_all(driver: ConsumerDriver) -> None:
    members = [ClassicMember(driver, instance=f"i{number}") for number in range(RECORDS_A_BATCH // 3 + 1)]
    for member in members:
        member.join()
    for _ in range(4):
        for member in members:
            member.step()
    driver.hold = True
    driver.enter("new", "t")
    batch = driver.in_flight
    assert batch is not None and len(batch.records) > RECORDS_A_BATCH
    assert decode(*batch.records[0]) == GroupRemoved("g")


def test_offsets_stay_and_are_committed_in_the_generation(driver: ConsumerDriver) -> None:
    offset = OffsetToCommit("t", 0, 42, -1, "", topic_id("t"))
    classic = ClassicMember(driver)
    classic.join()
    assert driver.commit_as("g", classic.member_id, 1, offset) == [ErrorCode.NONE]
    consumer = Consumer(driver, "new")
    consumer.enter("t")
    assert driver.fetch("g")["t", 0].offset == 42
    member_id, later = classic.member_id, replace(offset, offset=43)
    assert driver.commit_as("g", member_id, 1, later, version=7) == [
        ErrorCode.NONE
    ]  # it may not know of OffsetCommit 9
    settle(driver, classic, consumer)
    assert driver.commit_as("g", member_id, 1, later) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit_as("g", member_id, classic.generation, later) == [ErrorCode.NONE]
    driver.beat("new", -1)
    for at in (driver, driver.again()):
        assert at.fetch("g")["t", 0].offset == 43


@pytest.mark.parametrize(
    ("policy", "upgrades", "joins", "after"),
    [
        ((True, True), True, True, "classic PreparingRebalance"),
        ((True, False), True, True, "consumer Assigning"),
        ((False, True), False, True, "classic PreparingRebalance"),
        ((False, False), False, False, "consumer Empty"),
    ],
    ids=["bidirectional", "upgrade", "downgrade", "disabled"],
)
def test_the_policy_decides(policy: tuple[bool, bool], upgrades: bool, joins: bool, after: str) -> None:
    config = GroupConfig(group_initial_rebalance_delay_ms=0, upgrades_groups=policy[0], downgrades_groups=policy[1])
    first = ConsumerDriver({"t": 4}, config)
    ClassicMember(first).join()
    answer = first.enter("new", "t")
    if upgrades:
        assert answer.member_epoch == 2
    else:
        assert refused(answer) == ("GROUP_ID_NOT_FOUND", CANNOT + "online upgrade is disabled.")
    second = ConsumerDriver({"t": 4}, config)
    second.enter("new", "t")
    answer = ClassicMember(second).join()
    assert answer.error_code is (ErrorCode.NONE if joins else ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    second.beat("new", -1)
    assert kinds(second)[0] == after


def test_classic_members_alone_go_on_where_the_group_is_not_downgraded() -> None:
    """In Apache Kafka 4.4 the partitions of those that leave wait for a member that joins."""
    driver = ConsumerDriver({"t": 4}, GroupConfig(group_initial_rebalance_delay_ms=0, downgrades_groups=False))
    classic, _ = mixed(driver)
    driver.beat("new", -1)
    settle(driver, classic)
    assert classic.owned == ALL
    driver.set_topics(t=5)
    settle(driver, classic)
    assert classic.owned == {"t": {0, 1, 2, 3, 4}}
    driver.leave("g", Leaver(classic.member_id))
    assert kinds(driver) == ["consumer Empty"] * 2


@pytest.mark.parametrize(
    ("protocol_type", "subscription", "assignment", "why"),
    [
        ("connect", subscribed("t"), b"", "the group does not use the consumer embedded protocol."),
        ("consumer", b"xx", b"", "the embedded consumer protocol is malformed."),
        ("consumer", subscribed("t"), b"zz", "the embedded consumer protocol is malformed."),
        (
            "consumer",
            subscribed("t"),
            encode_assignment([("t", 0)])[:-4] + struct.pack(">i", 1) + b"x",
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        ),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_is(
    driver: ConsumerDriver, protocol_type: str, subscription: bytes, assignment: bytes, why: str
) -> None:
    member, token = driver.joined("g", protocols=(("range", subscription),), protocol_type=protocol_type)
    driver.advance(0)
    driver.sync("g", member, driver.answers[token].generation_id, {member: assignment})
    before = driver.describe("g")
    assert refused(driver.enter("new", "t")) == ("GROUP_ID_NOT_FOUND", CANNOT + why)
    assert driver.describe("g") == before
    assert driver.heartbeat("g", member, 1) is ErrorCode.NONE


def test_a_group_that_is_too_large_stays_as_it_is() -> None:
    config = GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_max_size=1)
    driver = ConsumerDriver({"t": 4}, config)
    members = ClassicMember(driver), ClassicMember(driver)
    for member in members:
        member.join()
    settle(driver, *members)
    why = "the group size exceeds the consumer group maximum size."
    assert refused(driver.enter("new", "t")) == ("GROUP_ID_NOT_FOUND", CANNOT + why)
    large = ConsumerDriver({"t": 4}, GroupConfig(group_initial_rebalance_delay_ms=0, max_record_bytes=1_024))
    ClassicMember(large).join(protocols=[("range", subscribed("t", *(f"topic-{number}" for number in range(60))))])
    why = "the group is too large for one batch of records."
    assert refused(large.enter("new", "t")) == ("GROUP_ID_NOT_FOUND", CANNOT + why)


@pytest.mark.parametrize(("count", "metadata"), [(2, b"x" * 600), (12, b"x")], ids=["metadata", "members"])
def test_members_that_no_batch_can_hold_are_not_read(count: int, metadata: bytes) -> None:
    """What they say of themselves is malformed, which is not noticed: to read 16 MiB takes seconds."""
    driver = ConsumerDriver({"t": 4}, GroupConfig(group_initial_rebalance_delay_ms=0, max_record_bytes=1_024))
    for _ in range(count):
        driver.joined("g", protocols=(("range", metadata),))
    why = "the group is too large for one batch of records."
    assert refused(driver.enter("new", "t")) == ("GROUP_ID_NOT_FOUND", CANNOT + why)


def test_the_batch_of_an_upgrade_holds_the_member_that_joins_too() -> None:
    driver = ConsumerDriver({"t": 4}, GroupConfig(group_initial_rebalance_delay_ms=0, max_record_bytes=1_536))
    classic = ClassicMember(driver)
    classic.join()
    since, before = len(driver.log), driver.describe("g")
    why = "the group is too large for one batch of records."
    topics = [f"topic-{number}" for number in range(80)]
    assert refused(driver.enter("new", "t", *topics)) == ("GROUP_ID_NOT_FOUND", CANNOT + why)
    assert (driver.describe("g"), len(driver.log)) == (before, since)
    assert classic.step() is ErrorCode.NONE
    assert driver.enter("new", "t").error_code == 0
    written = sum(map(size_bytes, driver.log[since:]))
    assert written <= 1_536


def test_members_that_wait_for_a_classic_rebalance_are_told_to_join_again(driver: ConsumerDriver) -> None:
    first, second = ClassicMember(driver), ClassicMember(driver)
    first.join()
    assert second.join() is None  # the first one is to join, too
    consumer = Consumer(driver, "new")
    consumer.enter("t")
    assert driver.answers[second.parked[1]].error_code is ErrorCode.REBALANCE_IN_PROGRESS if second.parked else False
    settle(driver, first, second, consumer)
    assert sorted(len(member.owned["t"]) for member in (first, second, consumer)) == [1, 1, 2]


def test_a_refused_member_leaves_those_that_wait_alone() -> None:
    """The group is full with its classic members, so it is not upgraded, and its rebalance goes on."""
    config = GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_max_size=2)
    driver = ConsumerDriver({"t": 4}, config)
    first, second = ClassicMember(driver), ClassicMember(driver)
    first.join()
    assert second.join() is None
    assert refused(driver.enter("new", "t"))[0] == "GROUP_MAX_SIZE_REACHED"
    settle(driver, first, second)
    assert kinds(driver)[0] == "classic Stable"
    assert len(first.owned["t"]) == len(second.owned["t"]) == 2


def test_what_a_member_has_not_given_up_yet_stays_its_own(driver: ConsumerDriver) -> None:
    """The leader's new assignment is in the log; the other member has not fetched it when the group is upgraded."""
    first, second = ClassicMember(driver), ClassicMember(driver)
    first.join()
    second.join()
    first.step()  # joins, leads, and is left with half
    used = dict(first.owned)
    driver.enter("new", "t")
    owned = driver.group().current(first.member_id).assigned[topic_id("t")]
    assert used["t"] <= set(owned)


def test_a_partition_that_two_classic_members_were_assigned_has_one_owner(driver: ConsumerDriver) -> None:
    first, _ = driver.joined("g", protocols=(("range", subscribed("t")),))
    driver.advance(0)
    both = encode_assignment([("t", 0), ("t", 9), ("gone", 1)])
    second, later = driver.joined("g", protocols=(("range", subscribed("t")),))
    driver.join("g", first, (("range", subscribed("t")),))
    generation = driver.answers[later].generation_id
    driver.sync("g", first, generation, {first: both, second: both})
    driver.enter("new", "t")
    assert driver.group().owners[topic_id("t")][0] == first


def test_a_static_member_changes_its_protocol_and_back(driver: ConsumerDriver) -> None:
    first, second = ClassicMember(driver, instance="i"), ClassicMember(driver, instance="j")
    first.join()
    second.join()
    settle(driver, first, second)
    upgraded = Consumer(driver, "new", instance="i")
    owned = dict(first.owned)
    assert upgraded.enter("t").error_code == 0 and upgraded.owned == owned  # it need not wait for the other
    assert driver.heartbeat("g", first.member_id, first.generation, "i") is ErrorCode.FENCED_INSTANCE_ID
    settle(driver, second, upgraded)
    driver.beat("new", -2, instance="i")
    back = ClassicMember(driver, instance="i")
    assert back.join().error_code is ErrorCode.NONE
    assert kinds(driver) == ["classic Stable"] * 2  # with no rebalance
    assert back.owned == owned
    assert [member.step() for member in (back, second)] == [ErrorCode.NONE] * 2


def test_partitions_that_come_before_a_downgrade_by_a_static_member_are_assigned(driver: ConsumerDriver) -> None:
    """The member that came back saw fewer; without a rebalance no member leads, and none looks at the topics."""
    consumer = Consumer(driver, "new", instance="i")
    consumer.enter("t")
    settle(driver, consumer)
    driver.beat("new", -2, instance="i")
    driver.hold = True
    back = ClassicMember(driver, instance="i")
    back.join()
    driver.set_topics(t=5)
    driver.release()
    settle(driver, back)
    assert kinds(driver) == ["classic Stable"] * 2
    assert back.owned == {"t": {0, 1, 2, 3, 4}}


def test_a_member_that_is_not_heard_of_downgrades_the_group(driver: ConsumerDriver) -> None:
    classic, _ = mixed(driver)
    for _ in range(9):
        driver.advance(5_000)
        classic.step()
    assert driver.list_groups()[0].group_type == "classic"
    settle(driver, classic)
    assert classic.owned == ALL


def test_a_downgrade_is_followed_by_its_rebalance_where_the_coordinator_dies(driver: ConsumerDriver) -> None:
    """The rebalance is not in the log; that it is due is."""
    classic, _ = mixed(driver)
    driver.beat("new", -1)
    assert len(classic.owned["t"]) == 2
    for _ in range(2):  # the next one may die as well
        classic.driver = driver.again()
    settle(classic.driver, classic)
    assert classic.owned == ALL
    again = classic.driver.again()
    again.advance(0)
    assert again.list_groups()[0].state == "Stable"  # with no other rebalance


def test_a_rebalance_is_due_until_its_generation_is_written(driver: ConsumerDriver) -> None:
    """A static member that comes back meanwhile has the group's record written once more."""
    classic, other, consumer = ClassicMember(driver), ClassicMember(driver, instance="i"), Consumer(driver, "new")
    classic.join()
    other.join()
    consumer.enter("t")
    settle(driver, classic, other, consumer)
    driver.beat("new", -1)
    after = driver.again()
    classic.driver = other.driver = after
    back = ClassicMember(after, instance="i")
    back.join()
    classic.driver = back.driver = after.again()
    back.parked = None
    settle(classic.driver, classic, back)
    assert sorted(classic.owned["t"] | back.owned["t"]) == [0, 1, 2, 3]


def test_a_group_that_changed_again_meanwhile_is_not_rebalanced(driver: ConsumerDriver) -> None:
    """The rebalance of a downgrade comes when its records are committed; another upgrade came first."""
    classic, _ = mixed(driver)
    driver.hold = True
    driver.beat("new", -1)
    driver.enter("again", "t")
    driver.release()
    assert kinds(driver)[0].startswith("consumer")
    assert not [key for key in driver.deadlines if isinstance(key, tuple) and key[0] == "join"]
    assert classic.step() is ErrorCode.REBALANCE_IN_PROGRESS

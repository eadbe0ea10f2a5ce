"""ConsumerGroupHeartbeat (KIP-848): joins, epochs, fencing, static members, time-outs; with Kafka's own messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.consumer_groups import Consumer, ConsumerDriver, refused, settle, told, topic_id
from support.groups import member_of
from tailrace.coordination.group_records import decode
from tailrace.errors import ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.group import Leaver

ONE_TOPIC = {"t": 6}


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver(ONE_TOPIC)


def two(driver: ConsumerDriver) -> tuple[Consumer, Consumer]:
    """A settled group of two members."""
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.enter("t")
    b.enter("t")
    settle(driver, a, b)
    return a, b


def test_the_first_member_gets_all_partitions_at_once(driver: ConsumerDriver) -> None:
    answer = driver.enter("a", "t")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert told(answer) == {"t": set(range(6))}
    again = driver.beat("a", 2)
    assert (again.member_epoch, told(again)) == (2, None)  # nothing new


def test_a_member_of_no_topic_has_the_first_epoch(driver: ConsumerDriver) -> None:
    assert driver.enter("a").member_epoch == 1
    assert driver.enter("b", "unknown", group_id="h").member_epoch == 2
    assert driver.group().state == "Stable"


def test_members_of_version_0_may_be_given_an_id(driver: ConsumerDriver) -> None:
    assert driver.enter("", "t", version=0).member_id == "uuid1"


def test_a_second_member_gets_what_the_first_one_gave_up(driver: ConsumerDriver) -> None:
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.enter("t")
    driver.advance(1_000)
    assert told(b.enter("t")) == {} and b.epoch == 3
    asked = driver.beat("a", 2)
    assert asked.member_epoch == 2 and len((told(asked) or {})["t"]) == 3
    assert told(b.beat()) is None  # they are not released
    assert driver.group().state == "Reconciling"
    kept = told(asked) or {}
    assert driver.beat("a", 2, owned=kept).member_epoch == 3
    got = told(b.beat()) or {}
    assert got["t"] | kept["t"] == set(range(6)) and not got["t"] & kept["t"]
    assert driver.group().state == "Stable"


def test_members_that_join_together_are_assigned_together(driver: ConsumerDriver) -> None:
    """KIP-1263: at most one assignment in group.consumer.assignment.interval.ms."""
    driver.enter("a", "t")
    assert [driver.enter(name, "t").member_epoch for name in "bc"] == [2, 2]
    assert (driver.group().group_epoch, driver.group().assignment_epoch, driver.group().state) == (4, 2, "Assigning")
    driver.advance(999)
    driver.beat("b", 2)
    assert driver.group().assignment_epoch == 2
    driver.advance(1)
    driver.beat("b", 2)
    assert driver.group().assignment_epoch == 4


@pytest.mark.parametrize(
    ("member", "epoch", "options", "message"),
    [
        ("", 0, {}, "MemberId can't be empty."),
        ("", 1, {"version": 0}, "MemberId can't be empty."),
        ("", -1, {"version": 0}, "MemberId can't be empty."),
        ("a", 0, {"group_id": ""}, "GroupId can't be empty."),
        ("a", 0, {"instance": ""}, "InstanceId can't be empty."),
        ("a", 0, {"rack": ""}, "RackId can't be empty."),
        ("a", 0, {"rebalance_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ("a", 0, {"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ("a", 0, {"owned": {"t": {0}}}, "TopicPartitions must be empty when (re-)joining."),
        (
            "a",
            0,
            {"topics": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ("a", -2, {}, "InstanceId can't be null."),
        ("a", -3, {}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_request(
    driver: ConsumerDriver, member: str, epoch: int, options: dict[str, Any], message: str
) -> None:
    fields = {"rebalance_ms": 1, "owned": {}, "topics": ["t"], **options}
    assert refused(driver.beat(member, epoch, **fields)) == ("INVALID_REQUEST", message)


@pytest.mark.parametrize(
    ("epoch", "options", "expected"),
    [
        (1, {"group_id": "no"}, ("GROUP_ID_NOT_FOUND", "Consumer group no not found.")),
        (-1, {"group_id": "no"}, ("GROUP_ID_NOT_FOUND", "Group no not found.")),
        (1, {}, ("UNKNOWN_MEMBER_ID", "Member x is not a member of group g.")),
        (-1, {}, ("UNKNOWN_MEMBER_ID", "Member x is not a member of group g.")),
        (1, {"instance": "i"}, ("UNKNOWN_MEMBER_ID", "Instance id i is unknown.")),
        (-2, {"instance": "i"}, ("UNKNOWN_MEMBER_ID", "Instance id i is unknown.")),
        (
            0,
            {"assignor": "mine", "topics": ["t"], "owned": {}, "rebalance_ms": 1},
            ("UNSUPPORTED_ASSIGNOR", "ServerAssignor mine is not supported. Supported assignors: uniform, range."),
        ),
    ],
)
def test_a_refusal(driver: ConsumerDriver, epoch: int, options: dict[str, Any], expected: tuple[str, str]) -> None:
    driver.enter("a", "t")
    assert refused(driver.beat("x", epoch, **options)) == expected


def test_a_member_in_another_epoch_is_fenced_and_joins_again(driver: ConsumerDriver) -> None:
    a, _ = two(driver)
    code, message = refused(driver.beat("a", a.epoch + 1))
    assert code == "FENCED_MEMBER_EPOCH" and message is not None and "greater member epoch (4)" in message
    code, message = refused(driver.beat("a", a.epoch - 2))
    assert code == "FENCED_MEMBER_EPOCH" and message is not None and "smaller member epoch (1)" in message
    owned = a.owned
    assert told(a.enter("t")) == owned  # its partitions are kept for it
    assert driver.group().group_epoch == 3


def test_a_lost_answer_is_asked_for_again_with_the_epoch_before(driver: ConsumerDriver) -> None:
    a, _ = two(driver)
    assert refused(driver.beat("a", 2))[0] == "FENCED_MEMBER_EPOCH"  # it does not say what it owns
    assert driver.beat("a", 2, owned=a.owned).member_epoch == 3
    assert refused(driver.beat("a", 2, owned={"t": set(range(6))}))[0] == "FENCED_MEMBER_EPOCH"


def test_a_full_request_is_told_everything(driver: ConsumerDriver) -> None:
    a, _ = two(driver)
    answer = a.beat(topics=["t"], rebalance_ms=1_000)
    assert told(answer) == a.owned


def test_a_member_that_leaves_hands_its_partitions_over(driver: ConsumerDriver) -> None:
    a, b = two(driver)
    answer = driver.beat("a", -1)
    assert (answer.member_id, answer.member_epoch) == ("a", -1)
    assert (driver.group().state, driver.group().group_epoch) == ("Assigning", 4)
    settle(driver, b)
    assert b.owned == {"t": set(range(6))}
    driver.beat("b", -1)
    assert (driver.group().state, driver.group().assignment_epoch) == ("Empty", 5)
    assert told(a.enter("t")) == {"t": set(range(6))}  # with no pause


def test_a_silent_member_is_out_after_its_session(driver: ConsumerDriver) -> None:
    _, b = two(driver)
    driver.advance(44_000)
    b.beat()
    driver.advance(1_000)
    assert refused(driver.beat("a", 3))[0] == "UNKNOWN_MEMBER_ID"
    settle(driver, b)
    assert b.owned == {"t": set(range(6))}


def test_a_member_that_does_not_give_up_its_partitions_is_out_after_its_rebalance_timeout(
    driver: ConsumerDriver,
) -> None:
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.enter("t", rebalance_ms=10_000)
    driver.advance(1_000)
    b.enter("t")
    driver.beat("a", 2)
    driver.advance(9_999)
    assert driver.beat("a", 2).member_epoch == 2
    driver.advance(1)
    assert refused(driver.beat("a", 2))[0] == "UNKNOWN_MEMBER_ID"
    settle(driver, b)
    assert b.owned == {"t": set(range(6))}


def test_a_member_that_gave_up_its_partitions_has_no_rebalance_timeout_any_more(driver: ConsumerDriver) -> None:
    two(driver)
    driver.advance(44_999)
    assert driver.group().member_count == 2
    assert not [key for key in driver.deadlines if isinstance(key, tuple) and key[0] == "rebalance"]


def test_both_timeouts_begin_anew_when_the_group_is_loaded(driver: ConsumerDriver) -> None:
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.enter("t", rebalance_ms=10_000)
    driver.advance(1_000)
    b.enter("t")
    driver.beat("a", 2)
    after = driver.again()
    after.advance(10_000)
    assert [*after.group().members] == ["b"]
    after.advance(35_000)
    assert not after.group().members


def test_a_static_member_that_restarts_has_its_partitions_back_without_a_rebalance(driver: ConsumerDriver) -> None:
    a, b = Consumer(driver, "a", instance="i"), Consumer(driver, "b")
    a.enter("t")
    b.enter("t")
    settle(driver, a, b)
    owned, epoch = a.owned, driver.group().group_epoch
    answer = driver.beat("a", -2, instance="i")
    assert answer.member_epoch == -2
    assert driver.group().state == "Reconciling"
    c = Consumer(driver, "c", instance="i")
    assert told(c.enter("t")) == owned and c.epoch == a.epoch
    assert (driver.group().group_epoch, driver.group().state) == (epoch, "Stable")
    assert [*driver.group().members] == ["b", "c"]
    assert driver.group().targets["c"] == {topic_id("t"): frozenset(owned["t"])}
    assert told(c.beat(topics=["t"], rebalance_ms=1)) == owned == told(driver.again().enter("c", "t"))


def test_a_static_member_that_does_not_come_back_is_out_after_its_session(driver: ConsumerDriver) -> None:
    driver.enter("a", "t", instance="i")
    driver.beat("a", -2, instance="i")
    driver.advance(44_999)
    assert driver.group().member_count == 1
    driver.advance(1)
    assert driver.group().member_count == 0


def test_an_instance_has_one_member_at_a_time(driver: ConsumerDriver) -> None:
    driver.enter("a", "t", instance="i")
    owned = "the instance id is owned by a member."
    for name in ("a", "b"):
        assert refused(driver.enter(name, "t", instance="i")) == (
            "UNRELEASED_INSTANCE_ID",
            f"Static member {name} with instance id i cannot join the group because {owned}",
        )
    fenced = ("FENCED_INSTANCE_ID", "Static member b with instance id i was fenced by member a.")
    for epoch in (2, -1, -2):
        assert refused(driver.beat("b", epoch, instance="i")) == fenced


def test_group_consumer_max_size() -> None:
    driver = ConsumerDriver(ONE_TOPIC, GroupConfig(group_consumer_max_size=2))
    driver.enter("a", "t")
    driver.enter("b", "t")
    full = ("GROUP_MAX_SIZE_REACHED", "The consumer group has reached its maximum capacity of 2 members.")
    assert refused(driver.enter("c", "t")) == full
    assert driver.beat("a", 2).member_epoch == 2
    driver.beat("b", -1)
    assert driver.enter("c", "t").member_id == "c"


def test_members_that_take_too_much_memory_are_refused() -> None:
    driver = ConsumerDriver(ONE_TOPIC, GroupConfig(max_record_bytes=1_000, max_group_metadata_bytes=5_000))
    assert refused(driver.enter("a", "x" * 1_000))[0] == "INVALID_REQUEST"
    for name in "abc":
        driver.enter(name, "x" * 500)
    assert refused(driver.enter("d", "x" * 500))[0] == "GROUP_MAX_SIZE_REACHED"
    driver.beat("a", -1)
    assert driver.enter("d", "x" * 500).member_id == "d"


def test_the_assignor_that_most_members_ask_for(driver: ConsumerDriver) -> None:
    driver.enter("a", "t", assignor="range")
    assert driver.describe_consumers().assignor == "range"
    driver.enter("b", "t", assignor="uniform")
    driver.enter("c", "t", assignor="uniform")
    assert driver.describe_consumers().assignor == "uniform"
    others = ConsumerDriver(ONE_TOPIC, GroupConfig(group_consumer_assignors=("range",)))
    others.enter("a", "t")
    assert others.describe_consumers().assignor == "range"
    assert refused(others.enter("b", "t", assignor="uniform"))[0] == "UNSUPPORTED_ASSIGNOR"


def test_the_group_is_assigned_anew_when_most_members_ask_for_another_assignor(driver: ConsumerDriver) -> None:
    driver.enter("a", "t", assignor="uniform")
    epoch = driver.group().group_epoch
    driver.beat("a", epoch, assignor="range")
    assert driver.group().group_epoch == epoch + 1
    driver.enter("b", "t", assignor="range")
    driver.enter("c", "t", assignor="range")
    epoch = driver.group().group_epoch
    driver.beat("b", driver.group().current("b").member_epoch, assignor="uniform")
    assert driver.group().group_epoch == epoch  # most still ask for range


def test_the_number_of_different_expressions_of_a_group_is_bounded(driver: ConsumerDriver) -> None:
    for number in range(100):
        assert driver.enter(f"m{number}", regex=f"t{number}").member_epoch
    assert driver.enter("same", regex="t1").member_id == "same"
    full = ("GROUP_MAX_SIZE_REACHED", "The members of the consumer group have 100 different regular expressions.")
    assert refused(driver.enter("other", regex="other")) == full
    assert refused(driver.enter("same", regex="other")) == full
    assert driver.enter("m2", regex="instead of t2").member_id == "m2"
    driver.beat("m0", -1)
    assert driver.enter("other", regex="other").member_id == "other"


def test_a_topic_that_comes_is_assigned_and_one_that_goes_is_taken_back(driver: ConsumerDriver) -> None:
    a = Consumer(driver, "a")
    a.enter("t", "new")
    settle(driver, a)
    driver.set_topics(t=6, new=2)
    settle(driver, a)
    assert a.owned == {"t": set(range(6)), "new": {0, 1}}
    driver.set_topics(t=8, new=2)
    settle(driver, a)
    assert a.owned == {"t": set(range(8)), "new": {0, 1}}
    driver.set_topics(new=2)
    settle(driver, a)
    assert a.owned == {"new": {0, 1}}
    assert driver.group().state == "Stable"


def test_a_leader_that_moves_is_no_reason_to_assign_anew(driver: ConsumerDriver) -> None:
    driver.enter("a", "t")
    topic = driver.image.topics["t"]
    moved = replace(topic, partitions=tuple(replace(each, leader_epoch=9) for each in topic.partitions))
    image = replace(driver.image, topics={"t": moved})
    assert MetadataDelta(driver.image, image).changed_topics == frozenset()
    other = replace(driver.image, topics={})
    assert MetadataDelta(driver.image, other).changed_topics == {"t"}


def test_a_topic_that_a_member_gives_up_is_taken_back_before_the_next_assignment(driver: ConsumerDriver) -> None:
    driver.set_topics(t=2, u=2)
    a = Consumer(driver, "a")
    a.enter("t", "u")
    assert told(a.beat(topics=["t"])) == {"t": {0, 1}}
    assert a.epoch == 2
    settle(driver, a)
    assert (a.owned, driver.group().state) == ({"t": {0, 1}}, "Stable")


def test_the_configs_of_a_group_stand_before_those_of_the_cluster_and_of_the_coordinator(
    driver: ConsumerDriver,
) -> None:
    driver.enter("a", "t")
    own = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.assignment.interval.ms": "2000",
    }
    cluster = {"group.consumer.assignment.interval.ms": "0"}
    driver.become(replace(driver.image, configs={(32, "g"): own, (4, ""): cluster}, offset=1))
    assert driver.beat("a", 2).heartbeat_interval_ms == 6_000
    driver.enter("b", "t")
    driver.advance(1_999)
    driver.beat("b", 2)
    assert driver.group().assignment_epoch == 2
    driver.advance(1)
    driver.beat("b", 2)
    assert driver.group().assignment_epoch == 3
    driver.advance(49_999)
    assert driver.group().member_count == 1  # b was heard of later
    driver.enter("x", "t", group_id="h")
    driver.enter("y", "t", group_id="h")
    assert driver.group("h").assignment_epoch == 3  # no pause
    driver.become(replace(driver.image, configs={(32, "g"): {"consumer.session.timeout.ms": "soon"}}, offset=2))
    assert driver.enter("c", "t").heartbeat_interval_ms == 5_000


def test_a_group_of_another_kind_gives_way_when_it_is_empty(driver: ConsumerDriver) -> None:
    member = member_of(driver, "g", "t")
    not_one = ("GROUP_ID_NOT_FOUND", "Group g is not a consumer group.")
    assert refused(driver.beat("a", 1)) == not_one
    driver.leave("g", Leaver(member))
    assert refused(driver.beat("a", 1)) == not_one
    assert driver.enter("a", "t").member_epoch == 2
    for at in (driver, driver.again()):
        (listed,) = at.list_groups()
        assert (listed.group_type, listed.state) == ("consumer", "Stable")
        assert not [key for key in at.deadlines if key not in (("expiry",), ("heartbeat", "g", "a"))]


def test_administrators_remove_members_with_leave_group(driver: ConsumerDriver) -> None:
    a = Consumer(driver, "a")
    a.enter("t")
    driver.enter("b", "t", instance="i")
    driver.enter("c", "t", instance="j")
    leavers = (Leaver("b"), Leaver("x"), Leaver("", "j"), Leaver("a", "j"), Leaver("", "k"), Leaver("b"))
    codes = [code for _, code in driver.leave("g", *leavers)]
    assert [code.name for code in codes] == [
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "NONE",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert driver.group().group_epoch == 5  # one more for both
    settle(driver, a)
    assert a.owned == {"t": set(range(6))}


def test_all_of_a_group_comes_back_from_the_log(driver: ConsumerDriver) -> None:
    a, b = two(driver)
    driver.enter("c", "t", instance="i", rack="r", assignor="range", rebalance_ms=7, client_id="cl")
    after = driver.again()
    assert after.describe_consumers() == driver.describe_consumers()
    assert after.beat("a", a.epoch).member_epoch == a.epoch
    assert after.beat("b", b.epoch, owned=b.owned).member_epoch >= b.epoch


def test_what_describe_shows(driver: ConsumerDriver) -> None:
    a, b = Consumer(driver, "a"), Consumer(driver, "b", instance="i")
    a.enter("t", rack="r")
    driver.advance(1_000)
    b.enter("t")
    driver.beat("a", 2)
    described = driver.describe_consumers()
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    first, second = described.members
    assert (first.metadata.rack_id, first.member_epoch) == ("r", 2)
    assert first.owned == {topic_id("t"): frozenset(range(6))}  # what it has to give up is among them
    assert len(first.target[topic_id("t")]) == 3
    assert (second.metadata.instance_id, second.owned) == ("i", {})
    assert refused(driver.describe_consumers("no")) == ("GROUP_ID_NOT_FOUND", "Group no not found.")
    member_of(driver, "classic", "t")
    assert refused(driver.describe_consumers("classic")) == (
        "GROUP_ID_NOT_FOUND",
        "Group classic is not a consumer group.",
    )
    assert refused(driver.describe("g")) == ("GROUP_ID_NOT_FOUND", "Group g is not a classic group.")


def test_a_group_with_members_is_not_deleted_and_an_empty_one_leaves_nothing(driver: ConsumerDriver) -> None:
    two(driver)
    assert driver.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    driver.beat("a", -1)
    driver.beat("b", -1)
    assert driver.delete_group("g") is ErrorCode.NONE
    assert not driver.list_groups() and not driver.again().list_groups()
    assert not [key for key, value in dict(driver.log).items() if value is not None]
    assert [decode(key, value) for key, value in driver.log]  # every record is one of Kafka's


def test_states_and_types_are_listed(driver: ConsumerDriver) -> None:
    driver.enter("a", "t")
    member_of(driver, "classic", "t")
    (listed,) = driver.list_groups("stable", types=["consumer"])
    assert (listed.group_id, listed.state, listed.group_type) == ("g", "Stable", "consumer")
    assert not driver.list_groups("empty")

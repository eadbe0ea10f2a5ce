"""JoinGroup, SyncGroup and Heartbeat of classic members in a consumer group: answers, refusals and time-outs."""

from __future__ import annotations

from typing import Any

import pytest

from support.classic_members import ClassicMember, subscribed
from support.consumer_groups import ConsumerDriver, topic_id
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.config import GroupConfig


@pytest.fixture
def driver() -> ConsumerDriver:
    """A group of one member of the consumer protocol, which has all partitions."""
    driver = ConsumerDriver({"t": 4}, GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_max_size=3))
    driver.enter("new", "t", rebalance_ms=20_000)
    return driver


def joined(driver: ConsumerDriver, **options: Any) -> Any:
    token = driver.join("g", protocols=[("range", subscribed("t"))], **options)
    return driver.answers[token]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": [("range", b"xx")], "member_id": "m"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 10}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"version": 3}, ErrorCode.NONE),
        ({"member_id": "unheard-of"}, ErrorCode.NONE),
        ({"instance": "i"}, ErrorCode.NONE),
        ({"instance": "i", "member_id": "m"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join(driver: ConsumerDriver, options: dict[str, Any], code: ErrorCode) -> None:
    options = {"protocols": [("range", subscribed("t"))], **options}
    answer = driver.answers[driver.join("g", **options)]
    assert answer.error_code is code
    if code is ErrorCode.NONE:
        assert (answer.generation_id, answer.protocol_name, answer.leader, answer.members) == (2, "range", "", ())


def test_classic_members_have_a_protocol_in_common(driver: ConsumerDriver) -> None:
    both = [("a", subscribed("t")), ("b", b"not looked at")]
    assert driver.answers[driver.join("g", "m", both)].protocol_name == "a"
    assert driver.answers[driver.join("g", "n", [("b", subscribed("t"))])].protocol_name == "b"
    refused = driver.answers[driver.join("g", "m", [("c", subscribed("t"))])]
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_a_full_group_takes_no_more(driver: ConsumerDriver) -> None:
    assert [joined(driver, member_id=name).error_code for name in "mn"] == [ErrorCode.NONE] * 2
    assert joined(driver).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(driver, member_id="o").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(driver, member_id="m").error_code is ErrorCode.NONE


def test_a_heartbeat_and_a_sync_are_of_a_classic_member_in_its_generation(driver: ConsumerDriver) -> None:
    member = ClassicMember(driver)
    member.join()
    known, generation = member.member_id, member.generation
    asked = [(known, generation), (known, 99), ("nobody", generation), ("new", generation)]
    codes = [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert [driver.heartbeat("g", *each) for each in asked] == codes
    assert [driver.answers[driver.sync("g", *each)].error_code for each in asked] == codes
    for wrong in (("connect", "range"), ("consumer", "other")):
        token = driver.sync("g", known, generation, protocol_type=wrong[0], protocol_name=wrong[1])
        assert driver.answers[token].error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_is_told_to_join_when_its_partitions_are_free(driver: ConsumerDriver) -> None:
    member = ClassicMember(driver)
    member.join()
    assert member.step() is ErrorCode.NONE  # the group waits before it assigns anew
    driver.advance(1_000)
    assert driver.heartbeat("g", member.member_id, member.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    stale = driver.answers[driver.sync("g", member.member_id, member.generation)]
    assert stale.error_code is ErrorCode.REBALANCE_IN_PROGRESS
    member.join()
    assert (member.generation, member.owned) == (3, {})
    assert member.step() is ErrorCode.NONE  # all is the other member's yet
    driver.beat("new", 2, owned={"t": {0, 1, 2, 3}})
    target = driver.group().targets["new"][topic_id("t")]
    driver.beat("new", 2, owned={"t": set(target)})
    assert member.step() is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(target) | member.owned["t"] == {0, 1, 2, 3}
    assert driver.group().state == "Stable"


def test_a_member_that_does_not_join_in_its_rebalance_timeout_is_out(driver: ConsumerDriver) -> None:
    member = ClassicMember(driver)
    member.join(rebalance_ms=5_000)
    driver.advance(1_000)
    for _ in range(5):
        code = driver.heartbeat("g", member.member_id, member.generation)
        assert code is ErrorCode.REBALANCE_IN_PROGRESS
        driver.advance(1_000)
    assert driver.heartbeat("g", member.member_id, member.generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_joins_and_does_not_sync_is_out(driver: ConsumerDriver) -> None:
    answer = joined(driver, member_id="m", rebalance_ms=5_000)
    for _ in range(4):
        driver.advance(1_000)
        driver.heartbeat("g", "m", answer.generation_id)
    driver.advance(1_000)
    assert driver.heartbeat("g", "m", answer.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_goes_with_its_own_session_also_after_loading(driver: ConsumerDriver) -> None:
    member = ClassicMember(driver, session_ms=7_000)
    member.join()
    after = driver.again()
    for at in (driver, after):
        at.advance(6_999)
        assert at.group().member_count == 2
        at.advance(1)
        assert at.group().member_count == 1


def test_a_member_may_go_on_with_the_other_protocol_under_its_id(driver: ConsumerDriver) -> None:
    member = ClassicMember(driver)
    member.join()
    assert driver.beat(member.member_id, member.generation).member_epoch == 2
    assert driver.group().classic_count == 0
    assert driver.heartbeat("g", member.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not driver.group().classic_protocols


def test_describe_shows_what_each_member_speaks(driver: ConsumerDriver) -> None:
    ClassicMember(driver).join()
    types = [each.metadata.classic_member_metadata is None for each in driver.describe_consumers().members]
    assert types == [True, False]

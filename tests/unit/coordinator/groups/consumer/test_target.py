"""A large target assignment is computed beside the group, which goes on with the one before (KIP-1263)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.consumer_groups import Consumer, ConsumerDriver, refused, settle, told
from tailrace.coordination.consumer_group_records import ConsumerGroupCurrentMemberAssignment
from tailrace.coordination.group_records import encode
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.consumer.target import ComputeTargets


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver({"t": 4}, GroupConfig(max_rows_assigned_at_once=4))


def joined(driver: ConsumerDriver, name: str, **options: str) -> Consumer:
    consumer = Consumer(driver, name, **options)
    consumer.enter("t")
    return consumer


def stable(driver: ConsumerDriver, *names: str) -> list[Consumer]:
    consumers = [joined(driver, name) for name in names]
    settle(driver, *consumers)
    return consumers


def test_members_and_partitions_say_which_assignment_is_large() -> None:
    driver = ConsumerDriver({"t": 4}, GroupConfig(max_rows_assigned_at_once=5))
    assert told(driver.enter("a", "t")) == {"t": {0, 1, 2, 3}}
    driver.advance(1_000)
    driver.enter("b", "t")
    assert [type(action) for action in driver.actions] == [ComputeTargets]


def test_it_is_computed_at_once_where_the_thread_is_switched_off(driver: ConsumerDriver) -> None:
    configs = {(4, ""): {"group.consumer.assignor.offload.enable": "false"}}
    driver.become(replace(driver.image, configs=configs, offset=1))
    assert told(driver.enter("a", "t")) == {"t": {0, 1, 2, 3}}
    own = ConsumerDriver(
        {"t": 4}, GroupConfig(max_rows_assigned_at_once=4, group_consumer_assignor_offload_enable=False)
    )
    assert told(own.enter("a", "t")) == {"t": {0, 1, 2, 3}}


def test_heartbeats_go_on_with_the_former_target_until_the_next_is_there(driver: ConsumerDriver) -> None:
    first = stable(driver, "a")[0]
    second = joined(driver, "b")
    group = driver.group()
    assert (group.group_epoch, group.assignment_epoch, group.state) == (3, 2, "Assigning")
    assert first.beat().member_epoch == 2 and first.owned == {"t": {0, 1, 2, 3}}
    assert second.beat().member_epoch == 2 and second.owned == {}
    assert len(driver.actions) == 1  # it is computed once
    driver.resolve()
    assert (group.assignment_epoch, group.state) == (3, "Reconciling")
    settle(driver, first, second)
    assert [len(member.owned["t"]) for member in (first, second)] == [2, 2]


def test_members_that_come_meanwhile_are_in_the_next_assignment(driver: ConsumerDriver) -> None:
    """A result is not thrown away for them: a group that members join all the time would never be assigned."""
    first = stable(driver, "a")[0]
    second = joined(driver, "b")
    third = joined(driver, "c")
    driver.resolve()
    group = driver.group()
    assert (group.group_epoch, group.assignment_epoch) == (4, 3)
    assert set(group.targets) == {"a", "b"}
    settle(driver, first, second, third)
    assert group.assignment_epoch == 4
    assert sorted(len(member.owned["t"]) for member in (first, second, third)) == [1, 1, 2]


def test_a_member_that_left_meanwhile_gets_nothing(driver: ConsumerDriver) -> None:
    first, _ = stable(driver, "a", "b")
    third = joined(driver, "c")
    driver.beat("b", -1)
    driver.resolve()
    group = driver.group()
    assert set(group.targets) == {"a", "c"} == set(group.members)
    assert (group.group_epoch, group.assignment_epoch) == (5, 4)
    settle(driver, first, third)
    assert sorted(len(member.owned["t"]) for member in (first, third)) == [2, 2]


def test_a_static_member_that_came_back_under_another_id_has_its_share(driver: ConsumerDriver) -> None:
    """It changes no epoch, so the result for its former id is computed again."""
    first = joined(driver, "a", instance="i")
    settle(driver, first)
    second = joined(driver, "b")
    driver.beat("a", -2, instance="i")
    again = joined(driver, "a2", instance="i")
    epoch = driver.group().group_epoch
    driver.resolve()
    assert driver.group().assignment_epoch < epoch == driver.group().group_epoch
    settle(driver, again, second)
    assert [len(member.owned["t"]) for member in (again, second)] == [2, 2]


def test_an_assignment_that_was_lost_is_computed_again(driver: ConsumerDriver) -> None:
    first = stable(driver, "a")[0]
    second = joined(driver, "b")
    driver.actions.clear()
    driver.advance(29_999)
    first.beat()
    assert not driver.actions
    driver.advance(1)
    first.beat()
    settle(driver, first, second)
    assert [len(member.owned["t"]) for member in (first, second)] == [2, 2]


def test_the_result_for_a_group_that_there_is_not_any_more(driver: ConsumerDriver) -> None:
    joined(driver, "a")
    driver.beat("a", -1)
    driver.delete_group("g")
    driver.resolve()
    assert driver.list_groups() == ()


def test_a_new_coordinator_computes_what_the_one_before_did_not_finish(driver: ConsumerDriver) -> None:
    first = stable(driver, "a")[0]
    second = joined(driver, "b")
    first.driver = second.driver = after = driver.again()
    settle(after, first, second)
    assert [len(member.owned["t"]) for member in (first, second)] == [2, 2]


def test_a_heartbeat_that_is_refused_begins_nothing(driver: ConsumerDriver) -> None:
    """What it would have begun is the next heartbeat's; noted as under way it would be missed for 30 s."""
    first, second = stable(driver, "a", "b")
    of_a_newer_version = ConsumerGroupCurrentMemberAssignment("g", "a", first.epoch, first.epoch, 127, (), ())
    driver.log.append(encode(of_a_newer_version))
    after = second.driver = driver.again()
    settle(after, second)
    epoch = after.group().group_epoch
    after.set_topics(t=5)
    after.advance(10_000)
    assert refused(after.beat("a", first.epoch))[0] == "FENCED_MEMBER_EPOCH"
    second.beat()
    assert [type(action) for action in after.actions] == [ComputeTargets]
    after.resolve()
    assert after.group().assignment_epoch == epoch + 1

"""Subscriptions by regular expression (RE2): when they are looked up, and what becomes of the topics."""

from __future__ import annotations

import pytest

from support.consumer_groups import Consumer, ConsumerDriver, settle
from tailrace_coordinator.groups.consumer.expressions import ResolveExpressions


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver({"orders": 2, "orders-eu": 2, "bills": 1})


def entered(driver: ConsumerDriver, name: str = "a", regex: str = "orders.*") -> Consumer:
    consumer = Consumer(driver, name)
    consumer.enter(regex=regex)
    driver.resolve()
    settle(driver, consumer)
    return consumer


def test_a_member_gets_the_topics_of_its_expression_when_they_are_known(driver: ConsumerDriver) -> None:
    consumer = Consumer(driver, "a")
    consumer.enter(regex="orders.*")
    assert (consumer.epoch, consumer.owned) == (1, {})
    assert driver.actions == [ResolveExpressions("g", ("orders.*",))]
    driver.resolve()
    settle(driver, consumer)
    assert consumer.owned == {"orders": {0, 1}, "orders-eu": {0, 1}}
    assert driver.again().group().expressions["orders.*"].topics == ("orders", "orders-eu")


def test_a_member_gets_no_topic_that_it_may_not_know(driver: ConsumerDriver) -> None:
    consumer = Consumer(driver, "a")
    consumer.enter(regex="orders.*", may_describe=lambda name: name == "orders")
    driver.resolve()
    settle(driver, consumer)
    assert consumer.owned == {"orders": {0, 1}}
    assert driver.again().group().expressions["orders.*"].topics == ("orders",)


def test_topics_that_come_are_found_after_ten_seconds_and_those_that_go_are_given_back(
    driver: ConsumerDriver,
) -> None:
    consumer = entered(driver)
    driver.set_topics(**{"orders": 2, "orders-us": 3})
    consumer.beat()
    assert not driver.actions
    driver.advance(10_000)
    consumer.beat()
    driver.resolve()
    settle(driver, consumer)
    assert consumer.owned == {"orders": {0, 1}, "orders-us": {0, 1, 2}}


def test_an_expression_that_another_member_has_is_known_at_once(driver: ConsumerDriver) -> None:
    entered(driver)
    epoch = driver.group().group_epoch
    driver.enter("b", regex="orders.*")
    assert driver.group().group_epoch == epoch + 1 and not driver.actions


def test_names_and_an_expression_together(driver: ConsumerDriver) -> None:
    consumer = entered(driver)
    consumer.beat(topics=["bills"])
    settle(driver, consumer)
    assert consumer.owned == {"orders": {0, 1}, "orders-eu": {0, 1}, "bills": {0}}
    consumer.beat(regex="")
    settle(driver, consumer)
    assert consumer.owned == {"bills": {0}}
    assert not driver.group().expressions


def test_an_expression_without_a_member_is_forgotten_also_when_its_topics_come_late(driver: ConsumerDriver) -> None:
    entered(driver)
    driver.enter("b", regex="bills")
    driver.beat("b", -1)
    driver.resolve()
    assert [*driver.group().expressions] == ["orders.*"]
    driver.beat("a", -1)
    assert not driver.group().expressions and not driver.again().group().expressions


def test_it_is_looked_up_again_when_the_shell_lost_the_question(driver: ConsumerDriver) -> None:
    driver.enter("a", regex="orders.*")
    driver.actions.clear()
    driver.beat("a", 1)
    driver.actions.clear()  # the first heartbeat asks on a group that is not written yet
    driver.advance(29_000)
    driver.beat("a", 1)
    assert not driver.actions
    driver.advance(1_000)
    driver.beat("a", 1)
    assert driver.actions


def test_it_is_looked_up_now_and_then_and_after_a_load(driver: ConsumerDriver) -> None:
    consumer = entered(driver)
    for _ in range(20):
        driver.advance(30_000)
        consumer.beat()
    assert driver.actions
    after = driver.again()
    after.beat("a", consumer.epoch)
    assert after.actions


def test_offsets_of_topics_of_an_expression_are_in_use(driver: ConsumerDriver) -> None:
    entered(driver)
    group = driver.group()
    assert group.is_subscribed_to("orders") and not group.is_subscribed_to("bills")


def test_a_topic_of_two_expressions_is_in_use_until_both_are_gone(driver: ConsumerDriver) -> None:
    entered(driver)
    entered(driver, "b", "orders-.*")
    driver.beat("a", -1)
    group = driver.group()
    assert group.is_subscribed_to("orders-eu") and not group.is_subscribed_to("orders")
    assert group.resolved_topics == {"orders-eu": 1} == driver.again().group().resolved_topics
    driver.beat("b", -1)
    assert not group.is_subscribed_to("orders-eu")

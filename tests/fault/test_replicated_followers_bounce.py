"""Followers that stop, die or sleep under load, and a rolling restart of everything: no produce or consume fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.load import Load, Reader, check, check_seen, read_all
from support.nodes import Nodes
from support.replicated import Replicated, create
from support.subscribing import subscribed
from support.tailrace_nodes import TailraceNodes


@pytest.fixture
def led_by_0(nodes: Nodes) -> Iterator[Replicated]:
    """Two partitions that broker 0 leads; the others follow."""
    made = create(nodes, [0, 1, 2], [0, 2, 1], word="followers", min_insync_replicas="2")
    yield made
    nodes.heal()
    made.delete()


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "hard"])
def test_a_follower_that_bounces_catches_up_and_the_leader_goes_on(
    nodes: Nodes, led_by_0: Replicated, clean: bool
) -> None:
    with Load(nodes.bootstrap, led_by_0.name) as load:
        for follower in (1, 2):
            load.wait_for(200)
            if clean:
                nodes.shut_down(follower)
            else:
                nodes.kill(follower)
            load.wait_for(500)
            nodes.start_node(follower)
            for partition in (0, 1):
                state = led_by_0.wait_for_isr(0, 1, 2, partition=partition)
                assert state.leader == 0
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, led_by_0.name))


def test_a_follower_that_sleeps_leaves_the_isr_and_comes_back(nodes: Nodes, led_by_0: Replicated) -> None:
    with Load(nodes.bootstrap, led_by_0.name) as load:
        load.wait_for(200)
        nodes.pause(1)
        led_by_0.wait_for_isr(0, 2)
        load.wait_for(500)
        nodes.resume(1)
        led_by_0.wait_for_isr(0, 1, 2)
        load.wait_for(200)
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, led_by_0.name))


def test_a_rolling_restart_of_all_brokers_fails_no_produce_and_no_consume(nodes: Nodes, topic: Replicated) -> None:
    with Load(nodes.bootstrap, topic.name) as load, Reader(nodes.bootstrap, topic.name, 3) as reader:
        for node in nodes.ids:
            load.wait_for(100)
            nodes.shut_down(node)
            load.wait_for(100)
            nodes.start_node(node)
            for partition in range(3):
                topic.wait_for_isr(0, 1, 2, partition=partition)
            reader.wait_for(100)
    assert load.promised.failed == []
    found = read_all(nodes.bootstrap, topic.name)
    check(load.promised, found)
    check_seen(reader, found)


def test_a_rolling_restart_of_every_other_role_fails_no_produce_and_no_consume(nodes: Nodes, topic: Replicated) -> None:
    if not isinstance(nodes, TailraceNodes):
        pytest.skip("Apache Kafka has no other roles")
    options = {"group_id": topic.name, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 200}
    consumer = subscribed(topic.name, bootstrap_servers=nodes.bootstrap, **options)
    read: list[int] = []
    try:
        with Load(nodes.bootstrap, topic.name) as load:
            for role, number in nodes.services:
                load.wait_for(100)
                nodes.restart_role(role, number)
                load.wait_for(100)
                want = len(read) + 100
                while len(read) < want:
                    read += [int(r.value) for rows in consumer.poll(timeout_ms=20_000).values() for r in rows]
        consumer.commit()
    finally:
        consumer.close()
    assert load.promised.failed == []
    assert len(read) == len(set(read))  # the group went on where it was
    check(load.promised, read_all(nodes.bootstrap, topic.name))

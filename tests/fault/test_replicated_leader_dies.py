"""kill -9 and SIGSTOP of a partition's leader under load, three replicas of which two must be in sync."""

from __future__ import annotations

from typing import Any

import pytest

from support.load import Load, Reader, check, check_order, check_seen, read_all
from support.nodes import Nodes
from support.replicated import Replicated

ONE_BY_ONE = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}


@pytest.mark.parametrize("settings", [{}, ONE_BY_ONE], ids=["idempotent", "not-idempotent"])
def test_a_killed_leader_loses_nothing_that_all_in_sync_replicas_had(
    nodes: Nodes, topic: Replicated, settings: dict[str, Any]
) -> None:
    with Load(nodes.bootstrap, topic.name, **settings) as load, Reader(nodes.bootstrap, topic.name, 3) as reader:
        load.wait_for(300)
        nodes.kill(0)
        load.wait_for(300)
        nodes.start_node(0)
        load.wait_for(300)
        reader.wait_for(300)
    assert load.promised.failed == []
    found = read_all(nodes.bootstrap, topic.name)
    check(load.promised, found, once=not settings)
    check_order(found)
    check_seen(reader, found)


def test_with_acks_1_a_killed_leader_loses_at_most_what_it_had_alone(nodes: Nodes, topic: Replicated) -> None:
    settings = {**ONE_BY_ONE, "acks": 1}
    with Load(nodes.bootstrap, topic.name, **settings) as load, Reader(nodes.bootstrap, topic.name, 3) as reader:
        load.wait_for(300)
        nodes.kill(0)
        load.wait_for(300)
        nodes.start_node(0)
        load.wait_for(300)
        reader.wait_for(300)
    found = read_all(nodes.bootstrap, topic.name)
    check_order(found)
    check_seen(reader, found)  # what a reader saw was on every in-sync replica
    for partition in (1, 2):  # led by others
        at = dict(found[partition])
        mine = {n: offset for n, (p, offset) in load.promised.acknowledged.items() if p == partition}
        assert {n: offset for n, offset in mine.items() if at.get(offset) != n} == {}


def test_a_paused_leader_that_wakes_up_has_no_say_any_more(nodes: Nodes, topic: Replicated) -> None:
    settings = {"request_timeout_ms": 5000}
    with Load(nodes.bootstrap, topic.name, **settings) as load, Reader(nodes.bootstrap, topic.name, 3) as reader:
        load.wait_for(300)
        nodes.pause(0)
        topic.wait(lambda state: state.leader not in {0, -1}, "another leader")
        load.wait_for(300)
        nodes.resume(0)
        topic.wait_for_isr(0, 1, 2)
        load.wait_for(300)
        reader.wait_for(300)
    assert load.promised.failed == []
    found = read_all(nodes.bootstrap, topic.name)
    check(load.promised, found)
    check_seen(reader, found)


def test_every_leader_in_turn_is_killed_under_load(nodes: Nodes, topic: Replicated) -> None:
    with Load(nodes.bootstrap, topic.name) as load:
        for node in nodes.ids:
            load.wait_for(200)
            nodes.kill(node)
            load.wait_for(200)
            nodes.start_node(node)
            for partition in range(3):
                topic.wait_for_isr(0, 1, 2, partition=partition)
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, topic.name))

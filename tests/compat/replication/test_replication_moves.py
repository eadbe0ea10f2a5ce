"""Replicas that move: reassignment with progress and cancel (KIP-455), CreatePartitions, throttles (KIP-73)."""

from typing import Any

import pytest

from support.moves import CANCEL, reassign, reassigning
from support.nodes import Nodes
from support.raw import build
from support.replicated import BROKER, TOPIC, Replicated, alter_configs, create
from support.waiting import until

INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS = 37, 39, 85
UNKNOWN_TOPIC_OR_PARTITION = 3
KIB = 1024


def partitions_answer(topic: Replicated, count: int, *assignments: list[int]) -> int:
    """The error code of CreatePartitions."""
    rows: Any = [{"broker_ids": ids} for ids in assignments] or None
    topics = [{"name": topic.name, "count": count, "assignments": rows}]
    request = build(37, topics=topics, timeout_ms=10_000, validate_only=False)
    return int(topic.nodes.ask(0, request, 2).results[0].error_code)


@pytest.mark.capability("reassignment (KIP-455)")
def test_a_partition_moves_to_other_nodes_with_its_records(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    for n in range(20):
        topic.append(b"%d" % n)
    assert reassign(topic, [3, 2, 1]) == 0
    state = topic.wait(lambda s: s.replicas == (3, 2, 1) and s.isr == {1, 2, 3}, "the new replicas")
    assert state.leader in {1, 2, 3}  # 0 led and has gone
    assert [value for _, value in topic.read()] == [b"%d" % n for n in range(20)]
    assert reassigning(nodes) == {}
    assert topic.append(b"20") == 20


@pytest.mark.capability("reassignment (KIP-455)")
def test_a_reassignment_shows_its_progress_and_can_be_taken_back(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1])
    topic.append(b"x")
    assert reassign(topic, CANCEL) == NO_REASSIGNMENT_IN_PROGRESS
    nodes.pause(3)
    assert reassign(topic, [3, 1]) == 0
    assert reassigning(nodes) == {(topic.name, 0): {"replicas": [3, 1, 0], "adding": [3], "removing": [0]}}
    state = topic.wait(lambda s: len(s.replicas) == 3, "the replicas of both")
    assert (state.replicas, state.isr, state.leader) == ((3, 1, 0), {0, 1}, 0)
    assert reassign(topic, CANCEL) == 0
    assert reassigning(nodes) == {}
    state = topic.wait(lambda s: len(s.replicas) == 2, "the old replicas")
    assert (set(state.replicas), state.isr, state.leader) == ({0, 1}, {0, 1}, 0)
    assert topic.append(b"y") == 1


@pytest.mark.capability("reassignment (KIP-455)")
def test_replicas_that_make_no_sense_are_refused(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1])
    wrong: tuple[list[int], ...] = ([], [0, 0], [0, 9], [-1, 0])
    assert [reassign(topic, replicas) for replicas in wrong] == [INVALID_REPLICA_ASSIGNMENT] * 4
    assert reassign(topic, [0, 1], partition=5) == UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(topic, [1, 0]) == 0  # the same nodes in another order: nothing to move
    assert topic.wait(lambda s: s.replicas == (1, 0), "the new order").leader == 0


@pytest.mark.capability("CreatePartitions with replicas")
def test_new_partitions_get_the_replicas_that_are_asked_for(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1])
    assert partitions_answer(topic, 3, [1, 2], [3, 0]) == 0
    assert [topic.wait(lambda s: True, "", p).replicas for p in (0, 1, 2)] == [(0, 1), (1, 2), (3, 0)]
    assert partitions_answer(topic, 4) == 0
    assert len(topic.wait(lambda s: s.leader >= 0, "a leader", 3).replicas) == 2
    assert topic.append(b"x", partition=2) == 0
    refused = [
        partitions_answer(topic, 2),
        partitions_answer(topic, 4),
        partitions_answer(topic, 5, [1]),
        partitions_answer(topic, 5, [1, 9]),
        partitions_answer(topic, 5, [1, 2], [2, 3]),
    ]
    assert refused[:2] == [INVALID_PARTITIONS] * 2
    assert refused[2:] == [INVALID_REPLICA_ASSIGNMENT] * 3


@pytest.mark.capability("replication throttles (KIP-73)")
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_is_slow_and_holds_up_no_other(nodes: Nodes, side: str) -> None:
    slow, quick = create(nodes, [0, 1]), create(nodes, [0, 1])
    for topic in (slow, quick):
        for _ in range(40):
            topic.append(bytes(50 * KIB))
    rate, replicas = f"{side}_replication_throttled_rate", f"{side}_replication_throttled_replicas"
    node = {"leader": 0, "follower": 3}[side]
    try:
        alter_configs(nodes, BROKER, str(node), **{rate: "20000"})
        alter_configs(nodes, TOPIC, slow.name, **{replicas: f"0:{node}"})
        for topic in (slow, quick):
            assert reassign(topic, [0, 1, 3]) == 0
        quick.wait_for_isr(0, 1, 3)
        assert (slow.name, 0) in reassigning(nodes)
        assert slow.append(b"acks=all needs the others only") == 40
    finally:
        alter_configs(nodes, TOPIC, slow.name, **{replicas: None})
        alter_configs(nodes, BROKER, str(node), **{rate: None})
    slow.wait_for_isr(0, 1, 3)
    until(lambda: reassigning(nodes) == {}, "the end of the reassignment")

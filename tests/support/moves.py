"""Requests that move leaders and replicas: ElectLeaders (KIP-460), reassignments (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.nodes import Nodes
from support.raw import build
from support.replicated import ELECT_LEADERS, LIST_REASSIGNMENTS, PREFERRED, REASSIGN, Replicated, State
from support.waiting import until

CANCEL = None


def elect(topic: Replicated, kind: int, *partitions: int) -> dict[int, int]:
    """The error code of each partition that the answer names."""
    rows = [{"topic": topic.name, "partitions": list(partitions)}]
    request = build(ELECT_LEADERS, election_type=kind, topic_partitions=rows, timeout_ms=10_000)
    answer = topic.nodes.ask(topic.nodes.live()[0], request, 2)
    assert answer.error_code == 0, answer.to_dict()
    return {row.partition_id: row.error_code for one in answer.replica_election_results for row in one.partition_result}


def reassign(topic: Replicated, replicas: Sequence[int] | None, partition: int = 0) -> int:
    """Asks for other replicas, or with None for the old ones back; answers the partition's error code."""
    row = {"partition_index": partition, "replicas": None if replicas is None else list(replicas)}
    rows = [{"name": topic.name, "partitions": [row]}]
    answer = topic.nodes.ask(topic.nodes.live()[0], build(REASSIGN, timeout_ms=10_000, topics=rows), 0)
    assert answer.error_code == 0, answer.to_dict()
    return int(answer.responses[0].partitions[0].error_code)


def reassigning(nodes: Nodes) -> dict[tuple[str, int], dict[str, list[int]]]:
    """Every reassignment in progress."""
    answer = nodes.ask(nodes.live()[0], build(LIST_REASSIGNMENTS, timeout_ms=10_000, topics=None), 0)
    assert answer.error_code == 0, answer.to_dict()
    return {(topic.name, row.partition_index): _moving(row) for topic in answer.topics for row in topic.partitions}


def _moving(row: Any) -> dict[str, list[int]]:
    rows = {"replicas": row.replicas, "adding": row.adding_replicas, "removing": row.removing_replicas}
    return {name: list(ids or ()) for name, ids in rows.items()}


def move_leader(topic: Replicated, leader: int, partition: int = 0) -> State:
    """Makes an in-sync replica the first of the list and elects it."""
    replicas = topic.state(partition).replicas
    assert leader in replicas
    order = [leader, *(node for node in replicas if node != leader)]
    assert reassign(topic, order, partition) == 0
    topic.wait(lambda state: list(state.replicas) == order, f"replicas {order}", partition)
    # 84: it leads already. Anything else: a busy machine has dropped it from the ISR; it comes back.
    until(lambda: elect(topic, PREFERRED, partition).get(partition, 0) in {0, 84}, f"the election of {leader}")
    return topic.wait_for_leader(leader, partition)

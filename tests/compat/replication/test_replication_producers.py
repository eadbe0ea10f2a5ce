"""DescribeProducers of replicas (KIP-664): a follower answers as its leader does, who has no replica does not."""

from __future__ import annotations

import time

import pytest

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.nodes import Nodes
from support.raw import build
from support.replicated import Replicated, create
from support.waiting import until

DESCRIBE_PRODUCERS = 61
NOT_LEADER_OR_FOLLOWER = 6


def told(topic: Replicated, node: int) -> tuple[int, list[tuple[int, int, int, int]]]:
    """(error code, (id, epoch, last sequence, last timestamp) of each producer) as the node says."""
    asked = build(DESCRIBE_PRODUCERS, topics=[{"name": topic.name, "partition_indexes": [0]}])
    (row,) = topic.nodes.ask(node, asked, 0).topics[0].partitions
    found = [(one.producer_id, one.producer_epoch, one.last_sequence) for one in row.active_producers]
    times = [one.last_timestamp for one in row.active_producers]
    return row.error_code, sorted((*one, moment) for one, moment in zip(found, times, strict=True))


@pytest.mark.capability("DescribeProducers (KIP-664)")
def test_every_replica_tells_of_the_producers_and_others_refuse(nodes: Nodes) -> None:
    topic, began = create(nodes, [0, 1, 2]), int(time.time() * 1000)
    for sequence in range(3):
        fields = {"producer_id": 77, "producer_epoch": 4, "base_sequence": sequence, "base_timestamp": began}
        with topic.producing(b"v", **fields) as pending:
            assert pending.answer().error_code == 0
    for node in (0, 1, 2):
        until(lambda node=node: told(topic, node) == (0, [(77, 4, 2, began)]), f"producers at node {node}")  # type: ignore[misc]
    assert told(topic, 3) == (NOT_LEADER_OR_FOLLOWER, [])


@pytest.mark.by("java")
@pytest.mark.capability("DescribeProducers (KIP-664)")
def test_the_transactions_tool_asks_the_replica_that_it_is_told_to(nodes: Nodes, jvm: JavaTools) -> None:
    topic, began = create(nodes, [1, 2]), int(time.time() * 1000)
    fields = {"producer_id": 78, "producer_epoch": 4, "base_sequence": 5, "base_timestamp": began}
    with topic.producing(b"v", node=1, **fields) as pending:
        assert pending.answer().error_code == 0
    until(lambda: told(topic, 2)[1], "the producer at the follower")
    shell = Shell(jvm, nodes.bootstrap)
    asked = (tools.TRANSACTIONS, "describe-producers", "--topic", topic.name, "--partition", "0")
    for where in ((), ("--broker-id", "1"), ("--broker-id", "2")):
        _, row = shell.out(*asked, *where).splitlines()
        assert row.split() == ["78", "4", "-1", "5", str(began), "None"]
    refused = shell.run(*asked, "--broker-id", "0")
    assert refused.code != 0
    assert "NotLeaderOrFollowerException" in refused.out + refused.err

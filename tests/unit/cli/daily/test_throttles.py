"""Which replicas a throttled move names, as kafka-reassign-partitions names them, and moves of very many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.steps import grows
from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.daily.throttles import involved, throttled, unthrottle
from tailrace.metadata.moves import by_topic
from tailrace.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    IncrementalAlterConfigsResponse,
)

BEFORE = {("a", 0): (0, 1), ("a", 1): (1, 2), ("b", 0): (0,)}
PLAN = {("a", 0): (0, 3), ("a", 1): (2, 1), ("b", 0): (4,)}


def test_those_that_were_there_give_and_the_new_ones_take() -> None:
    moves = dict(by_topic(PLAN))
    assert throttled("a", BEFORE, moves["a"]) == ("0:0,0:1,1:1,1:2", "0:3")
    assert throttled("b", BEFORE, moves["b"]) == ("0:0", "0:4")


def test_a_plan_is_looked_at_once_however_many_topics_it_names() -> None:
    def sorting(topics: int) -> Callable[[], Any]:
        plan = {(f"t{number:04}", index): (number,) for number in range(topics) for index in (1, 0)}
        return lambda: by_topic(plan)

    assert sorting(2)() == [("t0000", [(0, (0,)), (1, (0,))]), ("t0001", [(0, (1,)), (1, (1,))])]
    assert grows(sorting) < 1.1


def test_very_many_throttles_are_set_a_thousand_at_a_time() -> None:
    asked: list[int] = []

    class Cluster:
        def ask(self, message: Any, version: int) -> Any:
            asked.append(len(message.resources))
            return IncrementalAlterConfigsResponse(responses=[])

    unthrottle(Cluster(), [f"t{number}" for number in range(2000)], [0, 1])  # type: ignore[arg-type]
    assert asked == [1000, 1000, 2]


def test_every_broker_that_gives_or_takes_gets_the_rate() -> None:
    assert involved(BEFORE, PLAN) == [0, 1, 2, 3, 4]
    assert involved({}, {("c", 0): (7,)}) == [7]


def test_many_partitions_are_reassigned_with_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask(
        self: Nodes, request: AlterPartitionReassignmentsRequest, *, handled: object
    ) -> AlterPartitionReassignmentsResponse:
        asked.append(sum(len(topic.partitions) for topic in request.topics))
        done = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
        first = request.topics[0].partitions[0].partition_index
        refused = done.ReassignablePartitionResponse(partition_index=first, error_code=60)
        return AlterPartitionReassignmentsResponse(responses=[done(name="t", partitions=[refused])])

    monkeypatch.setattr(Nodes, "ask", ask)
    refusals = Nodes.__new__(Nodes).reassign({("t", index): (0, 1) for index in range(2001)})
    assert asked == [1000, 1000, 1]
    assert refusals == {("t", index): "REASSIGNMENT_IN_PROGRESS" for index in (0, 1000, 2000)}

"""What takes a group long is done in a thread, and its result is a decision of the shard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import structlog

from support.consumer_groups import image_of, topic_id
from tailrace.coordination.consumer_group_records import ConsumerGroupMemberMetadata
from tailrace.net.address import Address
from tailrace_coordinator.group_actions import GroupActions
from tailrace_coordinator.groups.assignors.spec import TopicSpec
from tailrace_coordinator.groups.consumer.expressions import ResolveExpressions
from tailrace_coordinator.groups.consumer.target import ComputeTargets
from tailrace_coordinator.shards.partition_log import OwnedPartition

OWNED = OwnedPartition(UUID(int=1), 7, 1, 0, 1, Address("h", 1))


class FakeShards:
    """Shards whose machine keeps what it is given, until so many have come."""

    def __init__(self, results: int) -> None:
        self.image = image_of({"t": 2, "u": 1}, offset=5)
        self.taken: list[tuple[str, Any]] = []
        self.all = asyncio.Event()
        self._left = results

    async def ask_partition(self, partition: int, decide: Callable[[Any, int, int], Any]) -> None:
        assert partition == OWNED.partition
        decide(self, 0, 0)
        self._left -= 1
        if not self._left:
            self.all.set()

    def take_expressions(self, now_ms: int, token: int, group_id: str, found: Any, version: int) -> None:
        self.taken.append((group_id, (found, version)))

    def take_targets(self, now_ms: int, token: int, action: ComputeTargets, targets: Any) -> None:
        self.taken.append((action.group_id, targets))


async def done(*actions: ResolveExpressions | ComputeTargets, results: int) -> list[tuple[str, Any]]:
    """What the machine was given, when all is done."""
    shards = FakeShards(results)
    obedient = GroupActions(lambda: shards, structlog.get_logger())
    for action in actions:
        obedient.act(OWNED, action)
    await shards.all.wait()
    await obedient.close()
    return shards.taken


def targets_of(group_id: str) -> ComputeTargets:
    """The action of a group with one member of the topic t."""
    member = ConsumerGroupMemberMetadata(group_id, "m", None, None, "", "", ("t",), "", -1, None)
    topics = {topic_id("t"): TopicSpec(2)}
    return ComputeTargets(group_id, 2, {"m": member}, topics, {}, {}, image_of({"t": 2}), "uniform")


async def test_one_action_of_a_kind_and_group_at_a_time() -> None:
    once = [ResolveExpressions(group_id, ("t",)) for group_id in ("g", "g", "h", "g")]
    found = {"t": ("t",)}, 5
    assert await done(*once, results=2) == [("g", found), ("h", found)]


async def test_targets_are_computed_beside_expressions_of_the_same_group() -> None:
    taken = await done(ResolveExpressions("g", ("[u]",)), targets_of("g"), targets_of("g"), results=2)
    assert taken == [("g", ({"[u]": ("u",)}, 5)), ("g", {"m": {topic_id("t"): frozenset({0, 1})}})]

"""What takes a group long is done in a thread, and its result is a decision of the shard."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import structlog

from support.consumer_groups import image_of, topic_id
from support.waiting import turns_until
from tailrace.clock import ManualClock
from tailrace.coordination.consumer_group_records import ConsumerGroupMemberMetadata
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace_coordinator.group_actions import GroupActions
from tailrace_coordinator.groups.assignors.spec import TopicSpec
from tailrace_coordinator.groups.consumer.expressions import ResolveExpressions
from tailrace_coordinator.groups.consumer.target import ComputeTargets
from tailrace_coordinator.shards.partition_log import OwnedPartition

OWNED = OwnedPartition(UUID(int=1), 7, 1, 0, 1, Address("h", 1))


class FakeShards:
    """Shards whose machine keeps what it is given, until so many have come; refusals: raised first."""

    def __init__(self, results: int, *refusals: ErrorCode) -> None:
        self.image = image_of({"t": 2, "u": 1}, offset=5)
        self.taken: list[tuple[str, Any]] = []
        self.all = asyncio.Event()
        self.refused = asyncio.Event()
        self.committed = asyncio.Event()
        self.committed.set()
        self.is_ours, self.looked = True, 0
        self._refusals = list(refusals)
        self._left = results

    def owns(self, owned: OwnedPartition) -> bool:
        self.looked += 1
        return self.is_ours

    async def ask_partition(self, partition: int, decide: Callable[[Any, int, int], Any]) -> None:
        assert partition == OWNED.partition
        if self._refusals:
            self.refused.set()
            raise ApiError(self._refusals.pop())
        decide(self, 0, 0)
        self._left -= 1
        if not self._left:
            self.all.set()
        await self.committed.wait()

    def take_expressions(self, now_ms: int, token: int, group_id: str, found: Any, version: int) -> None:
        self.taken.append((group_id, (found, version)))

    def take_targets(self, now_ms: int, token: int, action: ComputeTargets, targets: Any) -> None:
        self.taken.append((action.group_id, targets))


def of(shards: FakeShards, clock: ManualClock) -> GroupActions:
    return GroupActions(lambda: shards, partial(Backoff, clock, random.Random(1)), structlog.get_logger())


async def done(*actions: ResolveExpressions | ComputeTargets, results: int) -> list[tuple[str, Any]]:
    """What the machine was given, when all is done."""
    shards = FakeShards(results)
    obedient = of(shards, ManualClock())
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


async def test_a_group_that_has_decided_on_a_result_may_ask_again_before_that_is_committed() -> None:
    """Its reply and the next action come in one turn of the event loop; what is swallowed then is missed for 30 s."""
    shards = FakeShards(1)
    shards.committed.clear()
    obedient = of(shards, ManualClock())
    obedient.act(OWNED, targets_of("g"))
    await shards.all.wait()
    shards.all.clear()
    shards.committed.set()
    obedient.act(OWNED, targets_of("g"))
    await turns_until(lambda: len(shards.taken) == 2)
    await obedient.close()


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_a_result_that_the_shard_does_not_take_is_given_again(code: ErrorCode) -> None:
    """Too much waits for the log, or the shard is loaded; the group waits for the result and asks for no other."""
    clock, shards = ManualClock(), FakeShards(1, code)
    obedient = of(shards, clock)
    obedient.act(OWNED, targets_of("g"))
    await shards.refused.wait()
    clock.advance(1_000)
    await turns_until(lambda: shards.taken)
    await obedient.close()


async def test_the_result_for_a_shard_that_is_another_coordinators_is_left() -> None:
    clock, shards = ManualClock(), FakeShards(1, ErrorCode.NOT_COORDINATOR)
    obedient = of(shards, clock)
    obedient.act(OWNED, targets_of("g"))
    await shards.refused.wait()
    shards.is_ours = False
    clock.advance(1_000)
    await turns_until(lambda: shards.looked == 2)
    await obedient.close()
    assert not shards.taken

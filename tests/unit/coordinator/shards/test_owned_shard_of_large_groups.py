"""Groups of very many members, and of very many offsets: no step is longer because there are more of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from support.coordinator import TOPIC_ID, Stage, image, settle
from support.groups import subscription
from support.many_rows import MOST
from support.steps import longest_stretch
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.wire import messages as m
from tailrace_coordinator.groups.config import GroupConfig

FEW, MANY = 600, 1_200
DELAY_MS = 3_000
SESSION_MS, REBALANCE_MS = 1_000_000, 100_000
_PROTOCOL = m.JoinGroupRequest.JoinGroupRequestProtocol
_ASSIGNMENT = m.SyncGroupRequest.SyncGroupRequestAssignment


def wide() -> MetadataImage:
    base = image()
    rows = tuple(PartitionImage((0,), (0,), 0, 0, 0) for _ in range(MANY))
    return replace(base, topics={**base.topics, "t": TopicImage("t", TOPIC_ID, rows)})


class LargeGroup:
    """A group whose members each do the same; the clock stands still but where a test moves it."""

    def __init__(self, members: int) -> None:
        self.stage = Stage(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS))
        self.count = members
        self.ids: list[str] = []
        self.generation_id = 0
        self.leader = ""
        self.last: Any = None
        self.asking: list[asyncio.Task[None]] = []
        self.answers: list[Any] = []

    def ask(self, request: Any, version: int) -> None:
        async def one() -> None:
            self.answers.append(await self.stage.ask(request, version))

        self.asking.append(asyncio.ensure_future(one()))

    async def answered(self) -> None:
        """Until there are as many answers as members."""
        await turns_until(lambda: len(self.answers) == self.count)

    def join(self, member_id: str, topic: str = "t") -> Any:
        rows = [_PROTOCOL(name=name, metadata=subscription(topic)) for name in ("range", "roundrobin")]
        return m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=rows,
        )

    def sync(self, member_id: str) -> Any:
        is_leader = member_id == self.leader
        return m.SyncGroupRequest(
            group_id="g",
            generation_id=self.generation_id,
            member_id=member_id,
            assignments=[_ASSIGNMENT(member_id=each, assignment=b"x") for each in self.ids] if is_leader else [],
        )

    async def all_join(self) -> None:
        await self.stage.become(wide())
        for _ in range(self.count):
            self.ask(self.join(""), 3)
        await settle()
        self.stage.clock.advance(DELAY_MS)  # prolonged once, because they came meanwhile

    async def join_phase_ends(self) -> None:
        self.stage.clock.advance(DELAY_MS)
        await self.answered()

    async def followers_sync(self) -> None:
        self.ids = [answer.member_id for answer in self.answers]
        self.generation_id, self.leader = self.answers[0].generation_id, self.answers[0].leader
        assert {answer.generation_id for answer in self.answers} == {self.generation_id}
        (told,) = [answer for answer in self.answers if answer.members]
        assert {member.member_id for member in told.members} == set(self.ids)
        self.answers = []
        for each in self.ids:
            if each != self.leader:
                self.ask(self.sync(each), 3)
        await settle()
        self.last = self.sync(self.leader)

    async def last_asks(self) -> None:
        self.ask(self.last, 3)
        await self.answered()

    async def all_but_one_join_again(self) -> None:
        assert {answer.assignment for answer in self.answers} == {b"x"}
        self.answers = []
        for each in self.ids[1:]:
            self.ask(self.join(each, "u"), 3)
        await settle()
        self.last = self.join(self.ids[0], "u")

    async def described(self) -> None:
        asked = m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=False)
        (group,) = (await self.stage.ask(asked, 5)).groups
        assert len(group.members) == self.count

    async def loaded_by_the_next_owner(self) -> None:
        await self.stage.become(replace(wide(), shards=image(shard_epoch=2).shards))
        loaded = self.stage.coordinator.groups.loaded_machines
        await turns_until(lambda: list(loaded()))
        assert [machine.groups["g"].member_count for machine in loaded()] == [self.count]

    async def owner_goes(self) -> None:
        await self.stage.become(replace(wide(), shards=image(owner=1, shard_epoch=2).shards))
        await self.answered()
        assert self.answers[-1] == ErrorCode.NOT_COORDINATOR

    async def nobody_syncs(self) -> None:
        self.stage.clock.advance(REBALANCE_MS)
        await settle()
        (machine,) = self.stage.coordinator.groups.loaded_machines()
        await turns_until(lambda: machine.groups["g"].state == "Empty")
        assert machine.groups["g"].member_count == 0


Does = Callable[[LargeGroup], Awaitable[None]]
JOINED = (LargeGroup.all_join, LargeGroup.join_phase_ends)
SYNCED = (*JOINED, LargeGroup.followers_sync, LargeGroup.last_asks)
DECISIONS: dict[str, tuple[Does, ...]] = {
    "the end of the join phase": JOINED,
    "the leader's assignments": SYNCED,
    "another rebalance": (*SYNCED, LargeGroup.all_but_one_join_again, LargeGroup.last_asks),
    "DescribeGroups": (*SYNCED, LargeGroup.described),
    "another owner": (*SYNCED, LargeGroup.loaded_by_the_next_owner),
    "the owner goes": (LargeGroup.all_join, LargeGroup.owner_goes),
    "nobody syncs": (*JOINED, LargeGroup.nobody_syncs),
}


async def growth(measured: Callable[[int], Awaitable[int]]) -> float:
    """How many times as long the longest step is with twice as many."""
    await measured(10)  # what is remembered from the first on is no part of it
    least = inf
    for _ in range(3):
        least = min(least, await measured(MANY) / await measured(FEW))
        if least < MOST:
            break
    return least


@pytest.mark.parametrize("decision", DECISIONS)
async def test_no_step_is_longer_because_there_are_more_members(decision: str) -> None:
    *before, last = DECISIONS[decision]

    async def measured(members: int) -> int:
        group = LargeGroup(members)
        for each in before:
            await each(group)
        longest = await longest_stretch(last(group))
        await group.stage.coordinator.close()
        return longest

    assert await growth(measured) < MOST

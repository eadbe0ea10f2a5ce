"""Groups of many members and of many offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from support.coordinator import TOPIC_ID, LoadedLog, Stage, image, settle
from support.groups import subscription
from support.waiting import turns_until
from tailrace.coordination.group_records import OffsetCommitted, encode
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.records.record import Record, build
from tailrace.state import ProducerIdAndEpoch, ShardBatch
from tailrace.wire import messages as m
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.kinds import KINDS
from tailrace_coordinator.shards.loader import CoordinatorLoader
from tailrace_coordinator.shards.partition_log import Barrier

MEMBERS = 600
OFFSETS = 2_500  # more than a batch holds
DELAY_MS = 3_000
SESSION_MS, REBALANCE_MS = 1_000_000, 100_000
_PROTOCOL = m.JoinGroupRequest.JoinGroupRequestProtocol
_ASSIGNMENT = m.SyncGroupRequest.SyncGroupRequestAssignment


def wide() -> MetadataImage:
    base = image()
    rows = tuple(PartitionImage((0,), (0,), 0, 0, 0) for _ in range(OFFSETS))
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


@pytest.mark.parametrize("decision", DECISIONS)
async def test_a_decision_about_many_members_reaches_all_of_them(decision: str) -> None:
    group = LargeGroup(MEMBERS)
    for does in DECISIONS[decision]:
        await does(group)
    await group.stage.coordinator.close()


def committed(count: int, group_id: str = "g") -> list[OffsetCommitted]:
    return [OffsetCommitted(group_id, "t", n, n, commit_timestamp_ms=1) for n in range(count)]


async def with_offsets(count: int, producer: ProducerIdAndEpoch | None = None) -> Stage:
    """A shard that was loaded, with so many offsets of one group; a producer's: in its open transaction."""
    stage = Stage()
    log = stage.log
    log.entries += [(False, encode(offset)) for offset in committed(count)]
    if producer is not None:
        log.of_transactions.update(dict.fromkeys(range(count), (producer, False)))
    await stage.become(wide())
    await turns_until(lambda: list(stage.coordinator.groups.loaded_machines()))
    return stage


async def all_expire(stage: Stage) -> None:
    stage.clock.advance(GroupConfig().offsets_retention_check_interval_ms)
    (machine,) = stage.coordinator.groups.loaded_machines()
    await turns_until(lambda: not len(machine.offsets))


async def transaction_ends(stage: Stage) -> None:
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=[0])
    row = marker(producer_id=7, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=[topic])
    answer = await stage.ask(m.WriteTxnMarkersRequest(markers=[row]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


async def topic_is_deleted(stage: Stage) -> None:
    before = stage.image
    topics = {name: topic for name, topic in before.topics.items() if name != "t"}
    names = {topic_id: name for topic_id, name in before.topic_names.items() if name != "t"}
    await stage.become(replace(before, topics=topics, topic_names=names))
    (machine,) = stage.coordinator.groups.loaded_machines()
    await turns_until(lambda: not len(machine.offsets))


@pytest.mark.parametrize(
    ("work", "producer", "left"),
    [(all_expire, None, 0), (transaction_ends, ProducerIdAndEpoch(7, 0), OFFSETS), (topic_is_deleted, None, 0)],
    ids=["they expire", "their transaction ends", "their topic is deleted"],
)
async def test_a_decision_about_many_offsets_changes_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Stage], Awaitable[None]],
    producer: ProducerIdAndEpoch | None,
    left: int,
) -> None:
    append = LoadedLog.append

    async def committed_later(self: LoadedLog, *batch: Any) -> int:
        await asyncio.sleep(0)
        return await append(self, *batch)

    monkeypatch.setattr(LoadedLog, "append", committed_later)
    stage = await with_offsets(OFFSETS, producer)
    await work(stage)
    (machine,) = stage.coordinator.groups.loaded_machines()
    assert len(machine.offsets) == left
    await stage.coordinator.close()


async def test_a_batch_of_many_offsets_is_loaded_whole() -> None:
    machine = GroupMachine(GroupConfig())
    kind = KINDS[GROUP_METADATA_TOPIC]
    records = [Record(timestamp=0, key=key, value=value) for key, value in map(encode, committed(OFFSETS))]
    log = OneBatch(bytes(build(records)), OFFSETS)
    await CoordinatorLoader(log, kind, machine, lambda _, bad: None, asyncio.Lock()).load()
    assert len(machine.offsets) == OFFSETS


@dataclass
class OneBatch:
    """A log of one batch, with the barrier in it."""

    batch: bytes
    records: int

    async def fence(self) -> Barrier:
        return Barrier(self.records - 1, 0, 0)

    async def read(self, offset: int) -> bytes:
        return self.batch

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        raise AssertionError("nothing is written while it loads")

"""Seeded simulation: consumers of one group, a coordinator that dies, moves and comes back, a network that lies.

Invariants, after every event: of one generation only one member's assignments are ever in the log; generations in the
log never go back; what a member was told of generations never goes back; an acknowledged offset is never lost; and (in
the world's partition) no append of a lower shard epoch after a barrier.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from sim.coordinator.world import BARRIER, Entry, Partition, World
from tailrace.coordination.group_records import GroupMetadata, OffsetCommitted, decode
from tailrace.errors import ApiError, ErrorCode
from tailrace.state import KeyValue
from tailrace.wire.messages import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from tailrace_coordinator.groups.classic.join import Join
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit
from tailrace_coordinator.shards.owned_shard import Decide, OwnedShard

GROUP = "g"
END_MS = 12_000
SEEDS = int(os.environ.get("COORDINATOR_SEEDS", "200"))


class Consumer:
    """Joins, syncs, commits growing offsets of its own partition, heartbeats; now and then it dies and starts anew."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.static = number == 0
        self.member_id = ""
        self.life = 0
        self.position = 0
        self.acknowledged = 0
        self.synced_generation = 0

    async def live(self) -> None:
        random, clock = self.world.random, self.world.clock
        while True:
            await clock.sleep(random.uniform(0, 200))
            try:
                await self._session()
            except ApiError:
                continue
            if random.random() < 0.3:  # killed: it does not say goodbye, and forgets its id
                self.member_id = ""
                self.life += 1
                await clock.sleep(random.uniform(0, 2_000))

    async def _session(self) -> None:
        """One generation: join, sync, then work until told to rebalance."""
        answer = await self._join()
        if answer is None:
            return
        generation, leads = answer.generation_id, answer.leader == self.member_id and not answer.skip_assignment
        rows = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=m.member_id, assignment=m.member_id.encode())
            for m in (answer.members if leads else ())
        ]
        assignments = {m.member_id: m.member_id.encode() for m in (answer.members if leads else ())}
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=self.member_id, assignments=rows,
            group_instance_id=self._instance,
        )  # fmt: skip
        synced = await self._ask(lambda machine, now_ms, token: machine.sync(now_ms, token, request, assignments))
        if synced.error_code:
            self._forget_if_unknown(synced.error_code)
            return
        assert generation >= self.synced_generation, "a member was taken back to an older generation"
        self.synced_generation = generation
        await self._work(generation)

    async def _work(self, generation: int) -> None:
        world = self.world
        while world.random.random() < 0.9:
            await world.clock.sleep(world.random.uniform(10, 300))
            self.position += 1
            await self._commit(generation, self.position)
            if await self._heartbeat(generation):
                return

    async def _commit(self, generation: int, offset: int) -> None:
        commit = CommitHeader(GROUP, generation, self.member_id, self._instance, 9)
        position = OffsetToCommit("t", self.number, offset)
        codes = await self._ask(lambda machine, now_ms, token: machine.commit(now_ms, token, commit, [position]))
        assert not any(codes)
        self.acknowledged = max(self.acknowledged, offset)

    async def _heartbeat(self, generation: int) -> int:
        beat = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=self.member_id, group_instance_id=self._instance
        )
        code: int = await self._ask(lambda machine, now_ms, token: machine.heartbeat(now_ms, token, beat))
        return code

    async def _join(self) -> Any:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=1_500,
            rebalance_timeout_ms=1_000,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        uuid = f"{self.life}-{self.world.random.getrandbits(32)}"
        name = f"c{self.number}"
        answer = await self._ask(
            lambda machine, now_ms, token: machine.join(now_ms, Join(token, request, 9, name, "/host", uuid))
        )
        if answer.error_code:
            self.member_id = answer.member_id
            self._forget_if_unknown(answer.error_code)
            return None
        self.member_id = answer.member_id
        return answer

    @property
    def _instance(self) -> str | None:
        return "static" if self.static else None

    def _forget_if_unknown(self, code: int) -> None:
        if code in (25, 82):  # UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
            self.member_id = ""

    async def _ask(self, decide: Decide) -> Any:
        """Asks whom it believes to be the coordinator; sometimes that is the one before."""
        shards = self.world.shards
        stale = len(shards) > 1 and self.world.random.random() < 0.2
        shard: OwnedShard = shards[-2] if stale else shards[-1]
        try:
            answer = await shard.ask(decide)
        except ApiError as refused:
            self._forget_if_unknown(refused.code)
            raise
        await self.world.clock.sleep(self.world.delay_ms())
        return answer


class Invariants:
    """Reads the log as it grows."""

    def __init__(self, world: World, consumers: list[Consumer]) -> None:
        self.world = world
        self.consumers = consumers
        self.read = 0
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, int] = {}

    def check(self) -> None:
        entries = self.world.partition.entries
        for entry in entries[self.read :]:
            if entry.record is not BARRIER:
                self._see(decode(*entry.record))
        self.read = len(entries)
        for consumer in self.consumers:
            kept = self.committed.get(consumer.number, 0)
            assert kept >= consumer.acknowledged, f"{consumer.acknowledged} was acknowledged, the log has {kept}"

    def _see(self, record: object) -> None:
        if isinstance(record, OffsetCommitted):
            self.committed[record.partition] = record.offset
        elif isinstance(record, GroupMetadata):
            assert record.generation_id >= self.generation, "the log went back to an older generation"
            self.generation = record.generation_id
            if record.members and record.leader is not None:
                leader = next(
                    m.group_instance_id or m.member_id for m in record.members if m.member_id == record.leader
                )
                assert self.leaders.setdefault(record.generation_id, leader) == leader, "two leaders of one generation"


def simulate(seed: int, partition: Partition | None = None) -> tuple[World, Invariants]:
    """One run; the seed decides everything."""
    world = World(seed, (0.0, 0.02, 0.1)[seed % 3], partition or Partition())
    consumers = [Consumer(world, number) for number in range(3)]
    invariants = Invariants(world, consumers)
    world.assign()
    for consumer in consumers:
        world.spawn(consumer.live())

    def move() -> None:
        """A new owner; the old one is a zombie for a while, or dead at once."""
        zombie = world.tasks[0] if len(world.shards) == 1 else owners[-1]
        world.assign()
        owners.append(world.tasks[-1])
        world.after(world.random.choice((0, 50, 1_500)), zombie.cancel)
        world.after(world.random.uniform(500, 6_000), move)

    owners = [world.tasks[0]]
    world.after(world.random.uniform(500, 6_000), move)
    try:
        world.run(END_MS, invariants.check)
    finally:
        world.close()
    return world, invariants


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_acknowledged_offsets_and_generations_survive_any_coordinator(first: int) -> None:
    commits = generations = 0
    for seed in range(first, first + 20):
        try:
            _, invariants = simulate(seed)
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
        commits += sum(invariants.committed.values())
        generations += invariants.generation
    # A world in which nothing happens breaks no promise: something must have happened.
    assert commits > 200
    assert generations > 60


def test_one_seed_is_one_history() -> None:
    logs = [[entry.record for entry in simulate(7)[0].partition.entries] for _ in range(2)]
    assert logs[0] == logs[1]


class EpochBlind(Partition):
    """A leader that takes appends of any shard epoch."""

    def append(self, shard_epoch: int, base_offset: int, records: tuple[KeyValue, ...]) -> int:
        self.entries += [Entry(shard_epoch, record) for record in records]
        return len(self.entries) - len(records)


class EndBlind(EpochBlind):
    """A leader that checks the epoch, and not where the owner believes the log ends."""

    def append(self, shard_epoch: int, base_offset: int, records: tuple[KeyValue, ...]) -> int:
        if shard_epoch < self.shard_epoch:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return super().append(shard_epoch, base_offset, records)


@pytest.mark.parametrize("blind", [EpochBlind, EndBlind])
def test_the_simulation_notices_a_leader_that_does_not_check(blind: type[Partition]) -> None:
    with pytest.raises(AssertionError):
        for seed in range(2, 200, 3):
            simulate(seed, blind())

"""A small world around the real shard shell: a clock, one partition with its epoch check, a network with faults.

Everything happens on the world's clock, in an order that the seed decides. The event loop only carries coroutines on:
`settle` runs it until nobody can go on before time passes.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from support.coordinator import CONFIG, group_kinds
from tailrace.clock import ManualClock
from tailrace.coordination.fields import BadRecord
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.records.record import Record, build
from tailrace.state import KeyValue, ShardBatch
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.owned_shard import OwnedShard
from tailrace_coordinator.shards.partition_log import Barrier, OwnedPartition

BARRIER: KeyValue = (b"barrier", None)


class WorldClock(ManualClock):
    """A manual clock whose sleepers wait on timers, so that a loop without ready callbacks is at rest."""

    async def sleep(self, delay_ms: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(delay_ms, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def next_ms(self) -> float | None:
        """When the next timer is due."""
        return self._timers[0].at_ms if self._timers else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the partition and who appended it."""

    shard_epoch: int
    record: KeyValue


@dataclass(slots=True)
class Partition:
    """The leader's side: appends are checked as the broker does, and the world checks the broker."""

    entries: list[Entry] = field(default_factory=list)
    shard_epoch: int = -1
    barrier_epoch: int = -1

    def fence(self, shard_epoch: int) -> Barrier:
        if shard_epoch < self.shard_epoch:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.shard_epoch = self.barrier_epoch = shard_epoch
        self.entries.append(Entry(shard_epoch, BARRIER))
        return Barrier(len(self.entries) - 1, 0, 0)

    def append(self, shard_epoch: int, base_offset: int, records: tuple[KeyValue, ...]) -> int:
        if shard_epoch < self.shard_epoch or base_offset != len(self.entries):
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.shard_epoch = shard_epoch
        assert shard_epoch >= self.barrier_epoch, "an append by a lower shard epoch after a barrier"
        self.entries += [Entry(shard_epoch, record) for record in records]
        return base_offset

    def read(self, offset: int) -> bytes:
        """Up to ten entries as record batches, barriers as control batches."""
        batches = []
        for number, entry in enumerate(self.entries[offset : offset + 10], start=offset):
            key, value = entry.record
            batches.append(
                build([Record(timestamp=0, key=key, value=value)], base_offset=number, control=entry.record is BARRIER)
            )
        return b"".join(batches)


class WorldLog:
    """The partition over a network that delays, loses requests, loses answers and delivers late."""

    def __init__(self, world: World, owned: OwnedPartition) -> None:
        self.world = world
        self.owned = owned

    async def fence(self) -> Barrier:
        barrier: Barrier = await self._call(lambda: self.world.partition.fence(self.owned.shard_epoch))
        return barrier

    async def read(self, offset: int) -> bytes:
        records: bytes = await self._call(lambda: self.world.partition.read(offset))
        return records

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        epoch = self.owned.shard_epoch
        appended: int = await self._call(lambda: self.world.partition.append(epoch, base_offset, batch.records))
        return appended

    async def _call(self, act: Callable[[], Any]) -> Any:
        world = self.world
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        fate = world.random.random()

        def deliver() -> None:
            try:
                outcome, failure = act(), None
            except ApiError as refused:
                outcome, failure = None, refused
            if not loses_answer:
                world.after(world.delay_ms(), lambda: _finish(answer, outcome, failure))

        loses_answer = fate < 2 * world.faults
        if fate < world.faults:  # the request is lost, or so it seems: it may come long after it was given up
            world.after(200, lambda: _finish(answer, None, Disconnected("lost")))
            if world.random.random() < 0.5:
                world.after(world.random.uniform(200, 3_000), deliver)
        else:
            world.after(world.delay_ms(), deliver)
            if loses_answer:
                world.after(300, lambda: _finish(answer, None, TimeoutError()))
        return await answer


def _finish(answer: asyncio.Future[Any], outcome: Any, failure: Exception | None) -> None:
    if answer.done():
        return
    if failure is not None:
        answer.set_exception(failure)
    else:
        answer.set_result(outcome)


class Unheard:
    """Hears of everything and says nothing, but of bugs."""

    def on_loaded(self, shard: OwnedShard, barrier: Barrier, elapsed_ms: float) -> None: ...
    def on_dropped(self, shard: OwnedShard, doubt: Exception) -> None: ...
    def on_bad_record(self, shard: OwnedShard, offset: int, bad: BadRecord) -> None: ...
    def on_action(self, shard: OwnedShard, action: Any) -> None: ...

    def on_bug(self, shard: OwnedShard, bug: Exception) -> None:
        raise bug


class AtRest(selectors.SelectSelector):
    """Tells of each time at which a loop would wait, and has it wait for nothing."""

    def __init__(self, on_rest: Callable[[], None]) -> None:
        super().__init__()
        self._on_rest = on_rest

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout != 0:
            self._on_rest()
        return super().select(0)


class World:
    """One partition, its coordinators, and the clients that tests put in."""

    def __init__(self, seed: int, faults: float, partition: Partition) -> None:
        self.random = random.Random(seed)
        self.faults = faults
        self.clock = WorldClock()
        self.loop = asyncio.SelectorEventLoop(AtRest(lambda: self.loop.stop()))
        self.partition = partition
        self.config = GroupConfig(group_initial_rebalance_delay_ms=100, group_min_session_timeout_ms=1)
        self.shards: list[OwnedShard] = []  # the last one is the owner; those before may still believe they are
        self.tasks: list[asyncio.Task[Any]] = []

    def after(self, delay_ms: float, act: Callable[[], object]) -> None:
        def fire() -> None:
            act()

        self.clock.call_later(delay_ms, fire)

    def delay_ms(self) -> float:
        return self.random.uniform(0.1, 20)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
        self.tasks.append(task)
        return task

    def assign(self) -> None:
        """The controller gives the shard to another coordinator; the old one goes on until it hears of it, or dies."""
        owned = OwnedPartition(UUID(int=1), 0, len(self.shards) + 1, 0, 0, Address("127.0.0.1", 1))
        shard = OwnedShard(
            owned,
            WorldLog(self, owned),
            group_kinds(self.config)[GROUP_METADATA_TOPIC],
            config=CONFIG,
            image=MetadataImage,
            clock=self.clock,
            deadlines=Deadlines(self.clock),
            backoff=Backoff(self.clock, self.random),
            listener=Unheard(),
            applying=asyncio.Lock(),
        )
        self.shards.append(shard)
        self.spawn(shard.run())

    def run(self, until_ms: float, check: Callable[[], None]) -> None:
        """Lets time pass event by event and checks the invariants after each."""
        asyncio.set_event_loop(None)
        self.settle()
        while (next_ms := self.clock.next_ms()) is not None and next_ms <= until_ms:
            self.clock.advance(max(0.0, next_ms - self.clock.monotonic_ms()))
            self.settle()
            check()

    def settle(self) -> None:
        """Runs what can run now: until the loop would wait for something."""
        self.loop.run_forever()

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.settle()
        for task in self.tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise task.exception()  # type: ignore[misc]
        self.loop.close()

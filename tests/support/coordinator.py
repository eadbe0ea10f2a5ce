"""A coordinator on partitions in memory: the real shell and handlers, no broker, time by hand."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from support.sessions import session_of
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.errors import ApiError
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, ServiceImage, ShardImage, TopicImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.net.context import Context
from tailrace.net.identity import Identity
from tailrace.records.record import Record, build
from tailrace.state import KeyValue, ProducerIdAndEpoch, ShardBatch
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.group_actions import GroupActions
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.handlers import HANDLERS
from tailrace_coordinator.kinds import KINDS
from tailrace_coordinator.metrics import CoordinatorMetrics
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.kind import ShardKind
from tailrace_coordinator.shards.partition_log import Barrier, OwnedPartition
from tailrace_coordinator.shards.runtime import CoordinatorRuntime, RuntimeContext
from tailrace_coordinator.transactions.markers import MarkerSender
from tailrace_coordinator.transactions.peers import Peers

OFFSETS_ID, TOPIC_ID = UUID(int=1), UUID(int=2)
INCARNATION = UUID(int=3)
LOGGER: Any = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))


class MemoryLog:
    """One partition that survives its readers; fails on demand."""

    def __init__(self) -> None:
        self.entries: list[tuple[bool, KeyValue]] = []  # (is a barrier, record)
        self.of_transactions: dict[int, tuple[ProducerIdAndEpoch, bool]] = {}  # by offset: (whose, is a marker)
        self.epochs: list[int] = []
        self.appends: list[int] = []  # records in each
        self.failures: list[Exception] = []  # raised by the next calls, in order
        self.writes_before_it_fails = False  # an append: its answer is lost, and not the append
        self.read_from: list[int] = []  # the offset of each read
        self.gate: asyncio.Event = asyncio.Event()  # barriers and appends wait for it
        self.gate.set()
        self.appending = asyncio.Event()

    def at(self, owned: OwnedPartition) -> LoadedLog:
        return LoadedLog(self, owned)

    def fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


class LoadedLog:
    """What one loading of a shard sees of it."""

    def __init__(self, log: MemoryLog, owned: OwnedPartition) -> None:
        self.log = log
        self.owned = owned

    async def fence(self) -> Barrier:
        await self.log.gate.wait()
        self.log.fail()
        self.log.epochs.append(self.owned.shard_epoch)
        self.log.entries.append((True, (b"barrier", None)))
        return Barrier(len(self.log.entries) - 1, 0, 0)

    async def read(self, offset: int) -> bytes:
        self.log.fail()
        self.log.read_from.append(offset)
        return b"".join(
            self._batch(number, key, value, is_barrier)
            for number, (is_barrier, (key, value)) in list(enumerate(self.log.entries))[offset:]
        )

    def _batch(self, number: int, key: bytes, value: bytes | None, is_barrier: bool) -> bytes:
        records = [Record(timestamp=0, key=key, value=value)]
        if number not in self.log.of_transactions:
            return bytes(build(records, base_offset=number, control=is_barrier))
        (producer_id, epoch), is_marker = self.log.of_transactions[number]
        return bytes(
            build(
                records,
                base_offset=number,
                producer_id=producer_id,
                producer_epoch=epoch,
                transactional=True,
                control=is_marker,
            )
        )

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        self.log.appending.set()
        await self.log.gate.wait()
        if not self.log.writes_before_it_fails:
            self.log.fail()
        assert base_offset == len(self.log.entries)
        self.log.appends.append(len(batch.records))
        self.log.entries += [(False, record) for record in batch.records]
        if batch.producer is not None:
            for offset in range(base_offset, len(self.log.entries)):
                self.log.of_transactions[offset] = (batch.producer, batch.is_control)
        self.log.fail()
        return base_offset


def image(
    *, owner: int = 0, shard_epoch: int = 1, leader: int = 0, leader_epoch: int = 0, topic: str = "t"
) -> MetadataImage:
    """One partition of __consumer_offsets, a topic of one partition, coordinator 0, broker 0."""

    def partition(leads: int) -> PartitionImage:
        return PartitionImage((0,), (0,), leads, leader_epoch, 0)

    offsets = TopicImage(GROUP_METADATA_TOPIC, OFFSETS_ID, (partition(leader),))
    return MetadataImage(
        offset=10,
        topics={GROUP_METADATA_TOPIC: offsets, topic: TopicImage(topic, TOPIC_ID, (partition(0),))},
        topic_names={OFFSETS_ID: GROUP_METADATA_TOPIC, TOPIC_ID: topic},
        brokers={0: BrokerImage(0, 1, UUID(int=9), (Endpoint("INTERNAL", "127.0.0.1", 1),), fenced=False)},
        services={("coordinator", 0): ServiceImage("coordinator", 0, 5, INCARNATION)},
        shards={(GROUP_METADATA_TOPIC, 0): ShardImage(GROUP_METADATA_TOPIC, 0, owner, shard_epoch)},
    )


CONFIG = Config.load("coordinator")


class MemoryPeers(Peers):
    """What other services answer: `answers` of a test, by address; producer ids count up."""

    def __init__(self, image: Callable[[], MetadataImage], boot_id: str) -> None:
        super().__init__(image, boot_id)
        self.producer_ids = itertools.count(1000)
        self.asked: list[tuple[Address, Any]] = []
        self.answer: Callable[[Address, Any], Awaitable[Any]] = _nobody

    async def ask(self, address: Address, request: Any, *, version: int, timeout_ms: float, lane: int = 0) -> Any:
        self.asked.append((address, request))
        return await self.answer(address, request)

    async def new_producer_id(self) -> int:
        return next(self.producer_ids)


async def _nobody(address: Address, request: Any) -> Any:
    raise Disconnected(f"{address} is not there")


def group_kinds(config: GroupConfig) -> dict[str, ShardKind[Any]]:
    """The kinds there are, groups with a configuration of the test's own."""
    kind = replace(KINDS[GROUP_METADATA_TOPIC], machine=lambda _: GroupMachine(config))
    return {**KINDS, GROUP_METADATA_TOPIC: kind}


class Stage:
    """The coordinator, its partition, and requests as a client of it would send them.

    kinds: others beside groups, each with a partition of its own in `logs`.
    """

    def __init__(
        self,
        config: GroupConfig | None = None,
        load_wait_ms: float = 0,
        kinds: Mapping[str, ShardKind[Any]] | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.deadlines = Deadlines(self.clock)
        all_kinds = {**group_kinds(config or GroupConfig(group_initial_rebalance_delay_ms=0)), **(kinds or {})}
        self.logs = {topic: MemoryLog() for topic in all_kinds}
        self.log = self.logs[GROUP_METADATA_TOPIC]
        self.peers = MemoryPeers(lambda: self.coordinator.image, "boot")
        self.markers = MarkerSender(
            self.peers,
            lambda: self.coordinator.image,
            self.clock,
            lambda owned, ended: self.coordinator.transactions.ask_partition(
                owned.partition, lambda machine, now_ms, token: machine.complete(now_ms, token, ended)
            ),
            self._catch_up,
        )
        self.actions = GroupActions(
            lambda: self.coordinator.groups, partial(Backoff, self.clock, random.Random(1)), LOGGER
        )
        self.coordinator = Coordinator(
            0,
            {topic: self._runtime(topic, kind, load_wait_ms) for topic, kind in all_kinds.items()},
            random=random.Random(1),
            catch_up=self._catch_up,
            peers=self.peers,
            markers=self.markers,
            offsets_topic_partitions=CONFIG.offsets_topic_num_partitions,
            earlier_transaction_ms=100,
            rebalance_protocols=CONFIG.group_coordinator_rebalance_protocols,
        )
        self.metrics = CoordinatorMetrics(CollectorRegistry(), self.coordinator)
        self.coordinator.incarnation_id = INCARNATION
        self.image = MetadataImage()
        self.committed: MetadataImage | None = None  # what a controller has beyond the image; None while there is none
        self.caught_up = True  # whether a controller tells

    def _runtime(self, topic: str, kind: ShardKind[Any], load_wait_ms: float) -> CoordinatorRuntime:
        runtime_context = RuntimeContext(
            coordinator_id=0,
            config=CONFIG,
            clock=self.clock,
            random=random.Random(1),
            log=LOGGER,
            boot_id="boot",
            deadlines=self.deadlines,
            logs=self.logs[topic].at,
            load_wait_ms=load_wait_ms,
            act=self.actions.act if topic == GROUP_METADATA_TOPIC else self.markers.act,
        )
        return CoordinatorRuntime(topic, kind, runtime_context)

    async def _catch_up(self) -> bool:
        if self.committed is not None:
            await self.become(self.committed)
        return self.caught_up

    async def become(self, new: MetadataImage) -> None:
        """Shows an image and lets loading shards load."""
        old, self.image = self.image, new
        self.coordinator.on_image(old, new)
        await settle()

    async def ask(self, request: Any, version: int, client_id: str = "client") -> Any:
        """The handler's answer; an ApiError's code where it refuses."""
        context = Context(request.API_KEY, version, 1, client_id, _Connected())
        try:
            return await HANDLERS[request.API_KEY](request, context, self.coordinator)
        except ApiError as refused:
            return refused.code

    async def answered(self, asking: Coroutine[Any, Any, Any]) -> Any:
        """The same, letting time pass until there is an answer."""
        task = asyncio.ensure_future(asking)
        await settle()
        while not task.done():
            self.clock.advance(10)
            await settle()
        return task.result()


class _Connected:
    session = session_of(Identity(client_host="127.0.0.1", listener="INTERNAL"))

    def close(self) -> None:
        raise AssertionError("no handler closes connections")

    def give_way(self, why: str) -> None: ...


class _Yield:
    def __await__(self) -> Any:
        yield


async def settle() -> None:
    """Lets every task run until it waits for time or for the test."""
    for _ in range(20):
        await _Yield()

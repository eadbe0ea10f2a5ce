"""The shards of one kind that are owned here, kept in step with the metadata image: Kafka's CoordinatorRuntime."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.coordination.fields import BadRecord
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.net.backoff import Backoff
from tailrace.net.limits.answer_budget import text_bytes
from tailrace.net.members.endpoints import address_of
from tailrace.net.turns import turns
from tailrace.state import ROWS_AT_ONCE, Effects, partition_for
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.kind import MOST_ID_BYTES, CoordinatorShard, ShardKind
from tailrace_coordinator.shards.owned_shard import Decide, OwnedShard
from tailrace_coordinator.shards.partition_log import Barrier, OwnedPartition, ShardLog

Act = Callable[[OwnedPartition, Any], None]
DecideOnRows = Callable[[Sequence[Any], Any, int, int], Effects[Any]]  # (rows, machine, now_ms, token)


def _nothing_to_do(owned: OwnedPartition, action: Any) -> None:
    """No machine wants anything."""


def _taken(left: deque[str]) -> Iterator[list[str]]:
    """Takes the ids of one decision after the other, until none is left."""
    while left:
        yield [left.popleft() for _ in range(min(len(left), ROWS_AT_ONCE))]


@dataclass(frozen=True, slots=True)
class RuntimeContext:
    """What the shards of all kinds of one coordinator share."""

    coordinator_id: int
    config: Config
    clock: Clock
    random: random.Random
    log: FilteringBoundLogger
    boot_id: str
    deadlines: Deadlines
    logs: Callable[[OwnedPartition], ShardLog]
    load_wait_ms: float = 0  # how long requests wait for a shard that is being loaded
    act: Act = _nothing_to_do  # what a machine wants done, once it is committed
    applying: asyncio.Lock = field(default_factory=asyncio.Lock)  # what shards that load have read


@dataclass(frozen=True, slots=True)
class _Running:
    shard: OwnedShard
    task: asyncio.Task[None]


class CoordinatorRuntime:
    """Owns what the image says it owns of one topic. Handlers ask it by what they were asked."""

    def __init__(self, topic: str, kind: ShardKind[Any], runtime_context: RuntimeContext) -> None:
        self.topic = topic
        self.kind = kind
        self._image: MetadataImage | None = None
        self.partition_load_time_ms = 0.0  # of the last load
        self._request_id = kind.request_id
        self._runtime_context = runtime_context
        self._clock = runtime_context.clock
        self._logger = runtime_context.log
        self._load_wait_ms = runtime_context.load_wait_ms
        self._shards: dict[int, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._loading_since_ms: float | None = None
        self._complaint = ""

    @property
    def image(self) -> MetadataImage:
        """The last image. Raises ApiError COORDINATOR_LOAD_IN_PROGRESS before the first one."""
        if self._image is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._image

    def machines(self) -> Iterator[Any]:
        """Yields the machine of each owned shard, None for one that is not loaded."""
        return (running.shard.machine for running in self._shards.values())

    def loaded_machines(self) -> Iterator[Any]:
        """Yields the machines that are loaded."""
        return (machine for machine in self.machines() if machine is not None)

    # -- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, request: Any, decide: Decide) -> Any:
        """Has the request's shard decide, and returns its reply once what it saw is committed. Raises ApiError."""
        shard = self._shard_of(self._request_id(request))
        if shard.machine is None:
            await shard.loaded(self._load_wait_ms)
        return await shard.ask(decide)

    async def ask_partition(self, partition: int, decide: Decide) -> Any:
        """As ask, of the shard of that number."""
        shard = self._owned_shard(partition)
        if shard.machine is None:
            await shard.loaded(self._load_wait_ms)
        return await shard.ask(decide)

    async def ask_in_pieces(self, request: Any, rows: Sequence[Any], decide: DecideOnRows) -> list[Any]:
        """As ask, on some hundred rows at a time: each piece is committed before the next; one reply for each row.

        Raises ApiError if the first piece is refused. If a later one is, because the machine has changed meanwhile, its
        rows have the code for a reply.
        """
        replies: list[Any] = []
        async for first in turns(range(0, len(rows) or 1, ROWS_AT_ONCE)):
            piece = rows[first : first + ROWS_AT_ONCE]
            try:
                replies += await self.ask(request, partial(decide, piece))
            except ApiError as refused:
                if not first:
                    raise
                replies += [refused.code] * len(piece)
        return replies

    async def ask_each(self, ids: Sequence[str], decide: DecideOnRows) -> dict[str, Any]:
        """Has the shards of many ids decide on some of them at a time: a reply or an ApiError for each.

        A decision replies {id: reply}, and is asked for those again that it leaves out.
        """
        replies: dict[str, Any] = {}
        by_shard: dict[OwnedShard, list[str]] = {}
        async for each in turns(ids):  # a long id takes some 0.1 ms to hash
            try:
                by_shard.setdefault(self._shard_of(each), []).append(each)
            except ApiError as refused:
                replies[each] = refused
        await asyncio.gather(*(self._ask_each(shard, some, decide, replies) for shard, some in by_shard.items()))
        return replies

    async def _ask_each(self, shard: OwnedShard, ids: list[str], decide: DecideOnRows, replies: dict[str, Any]) -> None:
        await shard.loaded(self._load_wait_ms)
        left = deque(ids)
        async for piece in turns(_taken(left)):
            try:
                found: dict[str, Any] = await shard.ask(partial(decide, piece))
            except ApiError as refused:
                found = dict.fromkeys(piece, refused)
            replies.update(found)
            left.extendleft(each for each in reversed(piece) if each not in found)

    async def ask_all(self, decide: Decide) -> list[Any]:
        """Asks every owned shard; COORDINATOR_LOAD_IN_PROGRESS if one of them cannot answer yet (KIP-222)."""
        if self._image is None:  # nobody knows which are owned
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        shards = [running.shard for running in self._shards.values()]
        await asyncio.gather(*(shard.loaded(self._load_wait_ms) for shard in shards))
        return [await shard.ask(decide) async for shard in turns(shards)]

    def partition_of(self, request_id: str) -> int:
        """Which shard an id belongs to. Raises ApiError COORDINATOR_NOT_AVAILABLE while there is no topic.

        An id of more than MOST_ID_BYTES is refused.
        """
        if text_bytes(request_id) > MOST_ID_BYTES and len(request_id.encode()) > MOST_ID_BYTES:
            raise ApiError(self.kind.invalid_id, f"an id has at most {MOST_ID_BYTES} bytes")
        topic = self.image.topic(self.topic)
        if topic is None or not topic.partitions:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for(request_id, len(topic.partitions))

    def owns(self, owned: OwnedPartition) -> bool:
        """Whether the shard is still ours, in that epoch."""
        running = self._shards.get(owned.partition)
        return running is not None and running.shard.owned.shard_epoch == owned.shard_epoch

    def _shard_of(self, request_id: str) -> OwnedShard:
        return self._owned_shard(self.partition_of(request_id))

    def _owned_shard(self, partition: int) -> OwnedShard:
        running = self._shards.get(partition)
        if running is not None:
            return running.shard
        owner = self.image.shards.get((self.topic, partition))
        if owner is not None and owner.owner == self._runtime_context.coordinator_id:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # ours, but nobody leads the partition
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    # -- owning ---------------------------------------------------------------------------------------------------

    def on_image(self, delta: MetadataDelta, *, is_member: bool) -> None:
        """Tells the machines, then begins or ends the shards whose owner changed, and moves those whose leader did.

        is_member: whether the image shows this life of the coordinator; what it owns in another one is not ours.
        """
        self._image = delta.new
        for running in self._shards.values():
            running.shard.on_image(delta)
        wanted = {owned.partition: owned for owned in self._wanted(delta.new)} if is_member else {}
        for partition, running in list(self._shards.items()):
            owned = wanted.get(partition)
            if owned is None or not owned.has_same_owner(running.shard.owned):
                self._end(partition)
            elif owned != running.shard.owned:
                running.shard.move(owned, self._runtime_context.logs(owned))
        begun = [owned for partition, owned in wanted.items() if partition not in self._shards]
        for owned in begun:
            self._begin(owned)
        if begun:
            self._loading_since_ms = self._clock.monotonic_ms()

    def _wanted(self, image: MetadataImage) -> Iterator[OwnedPartition]:
        topic = image.topic(self.topic)
        for (topic_name, index), shard in image.shards.items():
            if topic_name != self.topic or shard.owner != self._runtime_context.coordinator_id:
                continue
            partition = image.partition(topic_name, index)
            if topic is None or partition is None:
                continue
            broker = image.brokers.get(partition.leader)
            address = None if broker is None else address_of(broker.endpoints, self._runtime_context.boot_id)
            if address is not None:
                yield OwnedPartition(
                    topic.topic_id, index, shard.shard_epoch, partition.leader, partition.leader_epoch, address
                )

    def _begin(self, owned: OwnedPartition) -> None:
        shard = OwnedShard(
            owned,
            self._runtime_context.logs(owned),
            self.kind,
            config=self._runtime_context.config,
            image=lambda: self.image,
            clock=self._clock,
            deadlines=self._runtime_context.deadlines,
            backoff=Backoff(self._clock, self._runtime_context.random),
            listener=self,
            applying=self._runtime_context.applying,
        )
        task = asyncio.get_running_loop().create_task(shard.run(), name=f"{self.topic}-{owned.partition}")
        self._shards[owned.partition] = _Running(shard, task)

    def _end(self, partition: int) -> None:
        running = self._shards.pop(partition)
        running.task.cancel()
        self._ending.add(running.task)
        running.task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Ends all shards."""
        for partition in list(self._shards):
            self._end(partition)
        await asyncio.gather(*self._ending, return_exceptions=True)

    # -- what shards tell (ShardListener) -------------------------------------------------------------------------

    def on_loaded(self, shard: OwnedShard, barrier: Barrier, elapsed_ms: float) -> None:
        """Says it once, when no owned shard is missing."""
        self.partition_load_time_ms = elapsed_ms
        owned = shard.owned
        self._logger.debug("shard loaded", partition=owned.partition, shard_epoch=owned.shard_epoch, barrier=barrier)
        machines: list[CoordinatorShard[Any]] = list(self.loaded_machines())
        if len(machines) == len(self._shards) and self._loading_since_ms is not None:
            elapsed_ms = self._clock.monotonic_ms() - self._loading_since_ms
            self._loading_since_ms = None
            self._complaint = ""
            held = {self.kind.holds: sum(map(len, machines))}
            self._logger.info("shards loaded", owned=len(machines), **held, elapsed_ms=round(elapsed_ms))

    def on_dropped(self, shard: OwnedShard, doubt: Exception) -> None:
        """Says why, once for all shards that share the reason."""
        if self._loading_since_ms is None:
            self._loading_since_ms = self._clock.monotonic_ms()
        why = str(doubt) or type(doubt).__name__
        if why != self._complaint:
            self._complaint = why
            self._logger.warning("shard dropped", partition=shard.owned.partition, leader=shard.owned.leader, why=why)

    def on_bug(self, shard: OwnedShard, bug: Exception) -> None:
        """Says it with its traceback, once for all shards and loads that have it; the shard is loaded again."""
        why = repr(bug)
        if why != self._complaint:
            self._complaint = why
            self._logger.error("shard dropped", partition=shard.owned.partition, exc_info=bug)

    def on_bad_record(self, shard: OwnedShard, offset: int, bad: BadRecord) -> None:
        """A record that was left out costs what it was of: a group or an offset."""
        self._logger.error("record left out", partition=shard.owned.partition, offset=offset, why=str(bad))

    def on_action(self, shard: OwnedShard, action: Any) -> None:
        """A machine wants something done that no record is."""
        self._runtime_context.act(shard.owned, action)

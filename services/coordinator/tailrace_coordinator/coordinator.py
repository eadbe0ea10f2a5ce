"""The role's object: the shards this coordinator owns, kept in step with the metadata image."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from tailrace.clock import Clock
from tailrace.coordination.fields import BadRecord
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage, changed
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.endpoints import address_of
from tailrace.net.pieces import ROWS_AT_ONCE, in_pieces, others_first
from tailrace.state import hashing_rows, partition_for
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.machine import GroupEffects, GroupMachine
from tailrace_coordinator.metrics import CoordinatorMetrics
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.owned_shard import Decide, Log, OwnedShard
from tailrace_coordinator.shards.partition_log import Barrier, Place

ROLE = "coordinator"

DecideOnRows = Callable[[Sequence[Any], GroupMachine, int, int], GroupEffects]  # (rows, machine, now_ms, token)
_GROUPS_AT_ONCE = 50  # of each shard, of which there are some fifty


@dataclass(slots=True)
class _Running:
    place: Place
    address: Address
    shard: OwnedShard
    task: asyncio.Task[None]


class Coordinator:
    """Owns what the image says it owns. Handlers ask it by group id."""

    def __init__(
        self,
        coordinator_id: int,
        group_config: GroupConfig,
        *,
        clock: Clock,
        random: random.Random,
        log: Any,
        boot_id: str,
        metrics: CoordinatorMetrics,
        logs: Callable[[Address, Place], Log],
        load_wait_ms: float = 0,
        catch_up: Callable[[], Awaitable[bool]],
    ) -> None:
        """load_wait_ms: how long requests wait for a shard that is loaded. catch_up: waits for the newest image."""
        self.coordinator_id = coordinator_id
        self.config = group_config
        self.image = MetadataImage()
        self.incarnation_id: UUID | None = None  # None: not registered in this life, another life's shards are ours
        self.deadlines = Deadlines(clock)
        self.metrics = metrics
        self._clock = clock
        self._random = random
        self._logger = log
        self._boot_id = boot_id
        self._logs = logs
        self._load_wait_ms = load_wait_ms
        self._catch_up = catch_up
        self._shards: dict[int, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._loading_since_ms: float | None = None
        self._complaint = ""

    def new_member_uuid(self) -> str:
        """The random part of a member id."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def machines(self) -> Iterator[GroupMachine | None]:
        """Yields the groups of each owned shard, None for one that is not loaded."""
        return (running.shard.machine for running in self._shards.values())

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Begins, ends or begins again the shards whose owner, shard epoch, leader or leader epoch changed."""
        self.image = new
        self._forget_deleted(old, new)
        wanted = dict(self._wanted(new))
        for partition, running in list(self._shards.items()):
            if wanted.get(partition) != (running.place, running.address):
                self._end(partition)
        begun = [each for partition, each in wanted.items() if partition not in self._shards]
        for place, address in begun:
            self._begin(place, address)
        if begun:
            self._loading_since_ms = self._clock.monotonic_ms()

    async def ask(self, group_id: str, decide: Decide) -> Any:
        """Has the group's shard decide, and returns its reply once what it saw is committed. Raises ApiError."""
        shard = self._shard_of(group_id)
        await shard.loaded(self._load_wait_ms)
        return await shard.ask(decide)

    async def ask_in_pieces(self, group_id: str, rows: Sequence[Any], decide: DecideOnRows) -> list[Any]:
        """As ask, on some hundred rows at a time: each piece is committed before the next; one reply for each row.

        Raises ApiError if the first piece is refused. If a later one is, because the group is another one by then, its
        rows have the code for a reply.
        """
        replies: list[Any] = []
        for first in range(0, len(rows) or 1, ROWS_AT_ONCE):
            piece = rows[first : first + ROWS_AT_ONCE]
            try:
                replies += await self.ask(group_id, partial(decide, piece))
            except ApiError as refused:
                if not first:
                    raise
                replies += [refused.code] * len(piece)
            if first + ROWS_AT_ONCE < len(rows):
                await others_first()
        return replies

    async def ask_each(self, group_ids: Sequence[str], decide: DecideOnRows) -> dict[str, Any]:
        """Has the shards of many groups decide on some of their groups at a time: a reply or an ApiError for each.

        A decision replies {group id: reply}, and is asked for those again that it leaves out.
        """
        replies: dict[str, Any] = {}
        by_shard: dict[OwnedShard, list[str]] = {}
        async for group_id in in_pieces(group_ids, weigh=hashing_rows):
            try:
                by_shard.setdefault(self._shard_of(group_id), []).append(group_id)
            except ApiError as refused:
                replies[group_id] = refused
        await asyncio.gather(*(self._ask_each(shard, ids, decide, replies) for shard, ids in by_shard.items()))
        return replies

    async def _ask_each(
        self, shard: OwnedShard, group_ids: list[str], decide: DecideOnRows, replies: dict[str, Any]
    ) -> None:
        await shard.loaded(self._load_wait_ms)
        left = deque(group_ids)
        while left:
            piece = [left.popleft() for _ in range(min(len(left), _GROUPS_AT_ONCE))]
            try:
                found: dict[str, Any] = await shard.ask(partial(decide, piece))
            except ApiError as refused:
                found = dict.fromkeys(piece, refused)
            replies.update(found)
            left.extendleft(group_id for group_id in reversed(piece) if group_id not in found)
            if left:
                await others_first()

    async def ask_all(self, decide: Decide) -> list[Any]:
        """Asks every owned shard; COORDINATOR_LOAD_IN_PROGRESS if one of them cannot answer yet (KIP-222)."""
        shards = [running.shard for running in self._shards.values()]
        await asyncio.gather(*(shard.loaded(self._load_wait_ms) for shard in shards))
        return list(await asyncio.gather(*(shard.ask(decide) for shard in shards)))

    async def caught_up(self) -> bool:
        """Whether the image has all that is committed by now: before something is said not to be there."""
        return await self._catch_up()

    def on_loaded(self, shard: OwnedShard, barrier: Barrier, elapsed_ms: float) -> None:
        """Says it once, when no owned shard is missing."""
        self.metrics.partition_load_time_ms = elapsed_ms
        place = shard.place
        self._logger.debug("shard loaded", partition=place.partition, shard_epoch=place.shard_epoch, barrier=barrier)
        machines = list(self.machines())
        if all(machines) and self._loading_since_ms is not None:
            elapsed_ms = self._clock.monotonic_ms() - self._loading_since_ms
            self._loading_since_ms = None
            self._complaint = ""
            groups = sum(len(machine.groups) for machine in machines if machine is not None)
            self._logger.info("shards loaded", owned=len(machines), groups=groups, elapsed_ms=round(elapsed_ms))

    def on_dropped(self, shard: OwnedShard, doubt: Exception) -> None:
        """Says why, once for all shards that share the reason."""
        if self._loading_since_ms is None:
            self._loading_since_ms = self._clock.monotonic_ms()
        why = str(doubt) or type(doubt).__name__
        if why != self._complaint:
            self._complaint = why
            self._logger.warning("shard dropped", partition=shard.place.partition, leader=shard.place.leader, why=why)

    def on_bad_record(self, shard: OwnedShard, offset: int, bad: BadRecord) -> None:
        """A record that was left out costs the group or offset it was of."""
        self._logger.error("record left out", partition=shard.place.partition, offset=offset, why=str(bad))

    def expire_offsets(self) -> None:
        """Lets every shard remove expired offsets."""
        for running in self._shards.values():
            running.shard.expire_offsets()

    async def close(self) -> None:
        """Ends all shards."""
        for partition in list(self._shards):
            self._end(partition)
        await asyncio.gather(*self._ending, return_exceptions=True)
        self.deadlines.close()

    def _forget_deleted(self, old: MetadataImage, new: MetadataImage) -> None:
        before = [topic for name in changed(old.topics, new.topics) if (topic := old.topics.get(name)) is not None]
        deleted = {topic.name: topic.topic_id for topic in before if topic.topic_id not in new.topic_names}
        if deleted:
            for running in self._shards.values():
                running.shard.forget_topics(deleted)

    def _shard_of(self, group_id: str) -> OwnedShard:
        topic = self.image.topic(GROUP_METADATA_TOPIC)
        if topic is None or not topic.partitions:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = partition_for(group_id, len(topic.partitions))
        running = self._shards.get(partition)
        if running is not None:
            return running.shard
        owner = self.image.shards.get((GROUP_METADATA_TOPIC, partition))
        if owner is not None and owner.owner == self.coordinator_id:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # ours, but nobody leads the partition
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    def _wanted(self, image: MetadataImage) -> Iterator[tuple[int, tuple[Place, Address]]]:
        service = image.services.get((ROLE, self.coordinator_id))
        if self.incarnation_id is not None and (service is None or service.incarnation_id != self.incarnation_id):
            return  # another process has our id, or we are not registered yet: its shards are not ours
        for (topic_name, index), shard in image.shards.items():
            if shard.owner != self.coordinator_id or topic_name != GROUP_METADATA_TOPIC:
                continue
            topic, partition = image.topic(topic_name), image.partition(topic_name, index)
            if topic is None or partition is None:
                continue
            broker = image.brokers.get(partition.leader)
            address = None if broker is None else address_of(broker.endpoints, self._boot_id)
            if address is not None:
                place = Place(topic.topic_id, index, shard.shard_epoch, partition.leader, partition.leader_epoch)
                yield index, (place, address)

    def _begin(self, place: Place, address: Address) -> None:
        shard = OwnedShard(
            place,
            self._logs(address, place),
            config=self.config,
            clock=self._clock,
            deadlines=self.deadlines,
            backoff=Backoff(self._clock, self._random),
            watcher=self,
        )
        task = asyncio.get_running_loop().create_task(shard.run(), name=f"shard-{place.partition}")
        self._shards[place.partition] = _Running(place, address, shard, task)

    def _end(self, partition: int) -> None:
        running = self._shards.pop(partition)
        running.task.cancel()
        self._ending.add(running.task)
        running.task.add_done_callback(self._ending.discard)

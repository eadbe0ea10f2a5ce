"""The role's object: the shards of every kind that this coordinator owns, and what handlers need besides."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.net.large import Large
from tailrace.state.partitioner import partition_for
from tailrace_coordinator.shards.runtime import CoordinatorRuntime
from tailrace_coordinator.transactions.markers import MarkerSender
from tailrace_coordinator.transactions.peers import Peers

ROLE = "coordinator"


class Coordinator:
    """Handlers ask `groups` by their request, `transactions` by the transactional id."""

    def __init__(
        self,
        coordinator_id: int,
        runtimes: Mapping[str, CoordinatorRuntime],
        *,
        random: random.Random,
        catch_up: Callable[[], Awaitable[bool]],
        peers: Peers,
        markers: MarkerSender,
        offsets_topic_partitions: int,
        earlier_transaction_ms: float,
        rebalance_protocols: Collection[str],
    ) -> None:
        """catch_up waits for the newest image. offsets_topic_partitions: what `__consumer_offsets` is made with.

        earlier_transaction_ms: how long a request waits for the markers of an earlier transaction.
        rebalance_protocols: group.coordinator.rebalance.protocols.
        """
        self.coordinator_id = coordinator_id
        self.runtimes = runtimes
        self.groups = runtimes[GROUP_METADATA_TOPIC]
        self.transactions = runtimes[TRANSACTION_STATE_TOPIC]
        self.peers = peers
        self.markers = markers
        self.earlier_transaction_ms = earlier_transaction_ms
        self.large = Large()
        self.serves_consumer_protocol = "consumer" in rebalance_protocols
        self.incarnation_id: UUID | None = None  # None: not registered in this life, another life's shards are ours
        self.offset_commits = 0
        self.offset_deletions = 0
        self._image: MetadataImage | None = None
        self._random = random
        self._catch_up = catch_up
        self._offsets_topic_partitions = offsets_topic_partitions

    @property
    def image(self) -> MetadataImage:
        """The image that this role serves. Raises ApiError COORDINATOR_LOAD_IN_PROGRESS before the first one."""
        if self._image is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._image

    async def latest_image(self) -> MetadataImage | None:
        """The image with all that is committed by now, before something is said not to be there; None: not known."""
        return self._image if await self._catch_up() else None

    def new_member_uuid(self) -> str:
        """The random part of a member id."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    async def offsets_partition(self, group_id: str) -> TopicPartition:
        """The group's partition of `__consumer_offsets`, also before that topic is made: by the count it will have.

        Raises ApiError COORDINATOR_NOT_AVAILABLE while it is not known whether the topic is there, and
        COORDINATOR_LOAD_IN_PROGRESS before the first image.
        """
        topic = self.groups.topic
        if self.image.topic(topic) is None:
            latest = await self.latest_image()
            if latest is not None and latest.topic(topic) is None:
                return topic, partition_for(group_id, self._offsets_topic_partitions)
        return topic, self.groups.partition_of(group_id)

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Takes the next image, whose shards may be others. None are ours if the image shows another process."""
        self._image = new
        service = new.services.get((ROLE, self.coordinator_id))
        is_member = self.incarnation_id is None or (
            service is not None and service.incarnation_id == self.incarnation_id
        )
        delta = MetadataDelta(old, new)
        for runtime in self.runtimes.values():
            runtime.on_image(delta, is_member=is_member)
        self.markers.on_image(self.transactions.owns)

    async def close(self) -> None:
        """Ends all shards, and what they do."""
        await self.markers.close()
        for runtime in self.runtimes.values():
            await runtime.close()

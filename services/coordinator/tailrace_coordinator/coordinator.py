"""The role's object: the shards of every kind that this coordinator owns, and what handlers need besides."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
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
        earlier_transaction_ms: float,
    ) -> None:
        """catch_up waits for the newest image; a request waits so long for the markers of an earlier transaction."""
        self.coordinator_id = coordinator_id
        self.runtimes = runtimes
        self.groups = runtimes[GROUP_METADATA_TOPIC]
        self.transactions = runtimes[TRANSACTION_STATE_TOPIC]
        self.peers = peers
        self.markers = markers
        self.earlier_transaction_ms = earlier_transaction_ms
        self.image = MetadataImage()
        self.incarnation_id: UUID | None = None  # None: not registered in this life, another life's shards are ours
        self.offset_commits = 0
        self.offset_deletions = 0
        self._random = random
        self._catch_up = catch_up

    def new_member_uuid(self) -> str:
        """The random part of a member id."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Takes the next image, whose shards may be others. None are ours if the image shows another process."""
        self.image = new
        service = new.services.get((ROLE, self.coordinator_id))
        is_member = self.incarnation_id is None or (
            service is not None and service.incarnation_id == self.incarnation_id
        )
        delta = MetadataDelta(old, new)
        for runtime in self.runtimes.values():
            runtime.on_image(delta, is_member=is_member)
        self.markers.on_image(self.transactions.owns)

    async def caught_up(self) -> bool:
        """Whether the image has all that is committed by now: before something is said not to be there."""
        return await self._catch_up()

    async def close(self) -> None:
        """Ends all shards, and what they do."""
        await self.markers.close()
        for runtime in self.runtimes.values():
            await runtime.close()

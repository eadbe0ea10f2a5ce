"""The broker: partitions led here, who waits on them, and what the metadata image says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from uuid import UUID

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Identity
from tailrace.net.metadata_follower import MetadataFollower
from tailrace_broker.barriers import last_barrier_epoch
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.partition import Partition
from tailrace_broker.producer_ids import ProducerIds
from tailrace_broker.purgatory import Purgatory
from tailrace_broker.replication.node import Node
from tailrace_broker.storage import BROKER, Storage
from tailrace_broker.topics import Topics

CLIENT_ENDPOINT = "CLIENT"


class Broker:
    """One node's state; handlers are its only callers."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        random: Random,
        *,
        storage: Storage,
        follower: MetadataFollower,
        metrics: BrokerMetrics,
    ) -> None:
        self.static_config = config
        self.config = config
        self.node_id: int = config.node_id
        self.storage = storage
        self.follower = follower
        self.metrics = metrics
        self.node = Node(self.node_id, clock.monotonic_ms, config.replica_lag_time_max_ms)
        self.topics = Topics(self.node, storage.open, storage.checkpointed)
        self.purgatory = Purgatory(clock, asyncio.get_running_loop().call_soon)
        self.producer_ids = ProducerIds(self.node_id, follower.ask_controller)
        self.now_ms = clock.wall_ms
        self.monotonic_ms = clock.monotonic_ms
        self._random = random
        self.on_image(MetadataImage(), follower.image)
        follower.subscribe(self.on_image)

    @property
    def image(self) -> MetadataImage:
        return self.follower.image

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Follows the metadata image: new leaders, new configs, deleted topics."""
        if old.configs is not new.configs:
            self._reconfigure(old, new)
        self.storage.follow(old, new, self.config)
        self.node.brokers = new.brokers
        changes = self.topics.update(old, new)
        for partition in changes.deleted:
            partition.leader = -1
            partition.leading = None
            partition.close()
            self.storage.delete(partition.topic, partition.topic_id, partition.index)
        for partition in (*changes.moved, *changes.deleted):
            self.purgatory.mark(partition)

    def _reconfigure(self, old: MetadataImage, new: MetadataImage) -> None:
        """KIP-226: this broker's dynamic configs lie above what it was started with."""
        own, default = (BROKER, str(self.node_id)), (BROKER, "")
        if any(old.configs.get(key) != new.configs.get(key) for key in (own, default)):
            self.config = self.static_config.with_dynamic(new.config(*default), new.config(*own))

    # -- partitions -----------------------------------------------------------------------------------------------

    def leading(self, key: bytes, index: int, *, by_id: bool) -> tuple[Partition | None, int]:
        """See Topics.leading."""
        return self.topics.leading(key, index, by_id=by_id)

    def led(self, topic: str, index: int) -> Partition:
        """The partition of that name if this broker leads it; else ApiError with Kafka's code."""
        partition, code = self.topics.leading(topic.encode(), index, by_id=False)
        if partition is None:
            raise ApiError(ErrorCode(code))
        return partition

    def appended(self, partition: Partition) -> None:
        """Wakes who waits for the partition's data, once in this loop tick."""
        self.purgatory.mark(partition)

    def learn_shard_epoch(self, partition: Partition) -> None:
        """Raises the partition's shard epoch to what the image and, once, the log's last barrier say."""
        if partition.shard_epoch < 0:
            partition.shard_epoch = max(0, last_barrier_epoch(partition.log))
        shard = self.image.shards.get((partition.topic, partition.index))
        if shard is not None and shard.shard_epoch > partition.shard_epoch:
            partition.shard_epoch = shard.shard_epoch

    # -- hints (KIP-951) ------------------------------------------------------------------------------------------

    def leader_hint(self, key: bytes, index: int) -> tuple[int, int] | None:
        """(leader id, leader epoch) of a partition led elsewhere, if the image names one."""
        row = self.topics.by_name.get(key) or self.topics.by_id.get(key)
        if row is None or not 0 <= index < len(row.image.partitions):
            return None
        image = row.image.partitions[index]
        return (image.leader, image.leader_epoch) if image.leader >= 0 else None

    def endpoints(self, nodes: Iterable[int], identity: Identity) -> list[tuple[int, str, int]]:
        """(node id, host, port) as this client is told them."""
        found = []
        for node in sorted(nodes):
            if self.config.gateway_advertise == "brokers":
                broker = self.image.brokers.get(node)
                endpoint = broker.endpoint(CLIENT_ENDPOINT) if broker is not None else None
                if endpoint is not None:
                    found.append((node, endpoint.host, endpoint.port))
            else:
                found.append((node, identity.advertised_host, identity.base_port + node))
        return found

    @staticmethod
    def uuid(key: bytes) -> UUID:
        """A topic id off the wire."""
        return UUID(bytes=key)

    def new_session_id(self) -> int:
        """A fetch session id, never 0 (KIP-227)."""
        return self._random.randrange(1, 2**31)

"""Other brokers that clients are sent to: present leaders (KIP-951), and replicas in the consumer's rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tailrace.metadata.image import MetadataImage
from tailrace.net.identity import Identity
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import Topics

CLIENT_ENDPOINT: Final = "CLIENT"
_RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Hints:
    """Hints from the present metadata image."""

    def __init__(self, image: Callable[[], MetadataImage], topics: Topics, config: DynamicBrokerConfig) -> None:
        self._image = image
        self._topics = topics
        self._config = config

    def leader(self, key: bytes, index: int) -> tuple[int, int] | None:
        """(leader id, leader epoch) of a partition led elsewhere, if the image names one."""
        row = self._topics.by_name.get(key) or self._topics.by_id.get(key)
        if row is None or not 0 <= index < len(row.image.partitions):
            return None
        image = row.image.partitions[index]
        return (image.leader, image.leader_epoch) if image.leader >= 0 else None

    def endpoints(self, nodes: Iterable[int], identity: Identity) -> list[tuple[int, str, int]]:
        """(node id, host, port) as this client reaches them."""
        config = self._config.current
        found = []
        for node in sorted(nodes):
            if config.gateway_advertise == "brokers":
                broker = self._image().brokers.get(node)
                endpoint = broker.endpoint(CLIENT_ENDPOINT) if broker is not None else None
                if endpoint is not None:
                    found.append((node, endpoint.host, endpoint.port))
            else:
                found.append((node, *identity.endpoint_of(node)))
        return found

    def preferred_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """KIP-392: the furthest replica in sync in the consumer's rack that has offset; -1 for the leader itself.

        A replica out of sync may lag forever, and so would its consumers: the leader would name it again and again.
        """
        leading, config = partition.leading, self._config.current
        if leading is None or not rack or config.replica_selector_class != _RACK_AWARE:
            return -1
        brokers = self._image().brokers
        own = brokers.get(self._topics.node_id)
        if own is not None and own.rack == rack:
            return -1
        there = [
            (replica.log_end_offset, replica.caught_up_ms, broker_id)
            for broker_id, replica in leading.replicas.items()
            if broker_id in partition.isr
            and (broker := brokers.get(broker_id)) is not None
            and not broker.fenced
            and broker.rack == rack
            and replica.log_start_offset <= offset <= replica.log_end_offset
        ]
        return max(there)[2] if there else -1

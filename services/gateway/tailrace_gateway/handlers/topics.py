"""What Metadata and DescribeTopicPartitions say of a partition, and which topic names are legal."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tailrace.errors import ErrorCode
from tailrace.metadata.directories import MIGRATING, UNASSIGNED, is_online
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.metadata.records import NO_LEADER
from tailrace_gateway.gateway import Gateway

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def legal(name: str) -> bool:
    """Kafka's rule for topic names (Topic.validate)."""
    return name not in {".", ".."} and _LEGAL.fullmatch(name) is not None


class Reach:
    """Which brokers clients can be told of in one image, and what that makes of its partitions.

    The same for all clients: where the gateway names its own ports every broker has an address.
    """

    def __init__(self, gateway: Gateway, image: MetadataImage) -> None:
        self._brokers = image.brokers
        self._named = {key for key, broker in image.brokers.items() if gateway.has_endpoint(broker)}
        self._live = {broker_id for broker_id in self._named if not image.brokers[broker_id].fenced}
        self._dirs = {UNASSIGNED, MIGRATING}.union(*(broker.log_dirs for broker in image.brokers.values()))

    def leader(self, partition: PartitionImage) -> tuple[int, ErrorCode]:
        """The leader, else -1 and why: as Apache Kafka's MetadataCache, by registration alone."""
        if partition.leader not in self._brokers:
            return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
        if partition.leader not in self._named:
            return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
        return partition.leader, ErrorCode.NONE

    def online(self, nodes: Iterable[int]) -> list[int]:
        """Those of the nodes that are live and can be reached."""
        return [node for node in nodes if node in self._live]

    def offline(self, partition: PartitionImage) -> list[int]:
        """The replicas whose brokers are gone, fenced or out of reach, or whose log dir failed (KIP-858)."""
        if self._live.issuperset(partition.replicas) and self._dirs.issuperset(partition.directories):
            return []
        lost = [
            node
            for node, directory_id in zip(partition.replicas, partition.directories, strict=False)
            if node in self._live and not is_online(directory_id, self._brokers[node].log_dirs)
        ]
        return [node for node in partition.replicas if node not in self._live or node in lost]

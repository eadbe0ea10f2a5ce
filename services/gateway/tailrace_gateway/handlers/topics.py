"""What Metadata and DescribeTopicPartitions say of a partition, and which topic names are legal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tailrace.errors import ErrorCode
from tailrace.metadata.directories import is_online
from tailrace.metadata.image import PartitionImage
from tailrace.metadata.records import NO_LEADER
from tailrace.net.context import Identity

if TYPE_CHECKING:
    from tailrace_gateway.gateway import Gateway

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def legal(name: str) -> bool:
    """Kafka's rule for topic names (Topic.validate)."""
    return name not in {".", ".."} and _LEGAL.fullmatch(name) is not None


def leader_of(gateway: Gateway, partition: PartitionImage, identity: Identity) -> tuple[int, ErrorCode]:
    """The leader a client may be told of, else -1 and why: as Apache Kafka's MetadataCache, by registration alone."""
    broker = gateway.image.brokers.get(partition.leader)
    if broker is None:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if gateway.endpoint_of(broker, identity) is None:
        return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    return partition.leader, ErrorCode.NONE


def online(gateway: Gateway, nodes: Iterable[int], identity: Identity) -> list[int]:
    """Those of the nodes that are live and can be reached by this client."""
    brokers = gateway.image.brokers
    return [
        node
        for node in nodes
        if node in brokers and not brokers[node].fenced and gateway.endpoint_of(brokers[node], identity) is not None
    ]


def offline(gateway: Gateway, partition: PartitionImage, identity: Identity) -> list[int]:
    """The replicas whose brokers are gone, fenced or out of this client's reach, or whose log dir failed (KIP-858)."""
    there = online(gateway, partition.replicas, identity)
    brokers = gateway.image.brokers
    lost = [
        node
        for node, directory_id in zip(partition.replicas, partition.directories, strict=False)
        if node in there and not is_online(directory_id, brokers[node].log_dirs)
    ]
    return [node for node in partition.replicas if node not in there or node in lost]

"""What Metadata and DescribeTopicPartitions say of a partition, and which topic names are legal."""

from __future__ import annotations

import re

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def legal(name: str) -> bool:
    """Kafka's rule for topic names (Topic.validate)."""
    return name not in {".", ".."} and _LEGAL.fullmatch(name) is not None


def error_of(image: MetadataImage, partition: PartitionImage) -> ErrorCode:
    """LEADER_NOT_AVAILABLE while nobody leads the partition."""
    broker = image.brokers.get(partition.leader)
    return ErrorCode.LEADER_NOT_AVAILABLE if broker is None else ErrorCode.NONE


def offline(image: MetadataImage, partition: PartitionImage) -> list[int]:
    """The replicas whose brokers are not there or fenced."""
    brokers = image.brokers
    return [node for node in partition.replicas if node not in brokers or brokers[node].fenced]

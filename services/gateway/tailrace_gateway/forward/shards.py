"""Who coordinates a group: its partition of __consumer_offsets and that shard's owner in the image."""

from __future__ import annotations

from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.members.endpoints import address_of
from tailrace.state.partitioner import partition_for


def shard_of(image: MetadataImage, group_id: str) -> int:
    """The group's partition of __consumer_offsets; -1 while there is no such topic."""
    topic = image.topic(GROUP_METADATA_TOPIC)
    return partition_for(group_id, len(topic.partitions)) if topic is not None and topic.partitions else -1


def shard_epoch_of(image: MetadataImage, shard: int) -> int:
    """The shard's epoch, -1 if nobody ever owned it."""
    found = image.shards.get((GROUP_METADATA_TOPIC, shard))
    return -1 if found is None else found.shard_epoch


def owner_address(image: MetadataImage, shard: int, boot_id: str) -> Address | None:
    """Where the owner of a shard listens."""
    found = image.shards.get((GROUP_METADATA_TOPIC, shard))
    service = None if found is None else image.services.get(("coordinator", found.owner))
    return None if service is None else address_of(service.endpoints, boot_id)

"""What coordinates an id: its partition of a sharded topic, and that shard's owner in the image.

A group has a shard of `__consumer_offsets`, a transactional id one of `__transaction_state`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.members.endpoints import address_of
from tailrace.state.partitioner import partition_for


def shard_of(image: MetadataImage, topic_name: str, request_id: str) -> int:
    """The id's partition of the topic; -1 while there is no such topic."""
    topic = image.topic(topic_name)
    return partition_for(request_id, len(topic.partitions)) if topic is not None and topic.partitions else -1


def shard_epoch_of(image: MetadataImage, topic_name: str, shard: int) -> int:
    """The shard's epoch, -1 if nobody ever owned it."""
    found = image.shards.get((topic_name, shard))
    return -1 if found is None else found.shard_epoch


def owner_address(image: MetadataImage, topic_name: str, shard: int, boot_id: str) -> Address | None:
    """Where the owner of a shard listens."""
    found = image.shards.get((topic_name, shard))
    service = None if found is None else image.services.get(("coordinator", found.owner))
    return None if service is None else address_of(service.endpoints, boot_id)


def coordinators(image: MetadataImage, boot_id: str) -> Iterator[Address]:
    """Where each coordinator listens, whatever it owns."""
    found = (address_of(service.endpoints, boot_id) for service in image.services_of("coordinator"))
    return (address for address in found if address is not None)

"""Who leads when brokers come and go: leaders come from the ISR, and without a live one a partition has none.

The last member of an ISR stays in it when its broker is fenced (as in Kafka), so it may return as leader: with one
replica the partition comes back with its broker and a new leader epoch.
"""

from collections.abc import Iterator

from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.metadata.records import NO_LEADER, NO_LEADER_CHANGE, PartitionChangeRecord


def on_broker_gone(image: MetadataImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yields what changes when this broker may not lead or be in sync any more."""
    eligible = {broker.broker_id for broker in image.live_brokers() if not broker.in_controlled_shutdown} - {broker_id}
    for topic, index, partition in _partitions(image):
        if broker_id not in partition.isr:
            continue
        isr = tuple(member for member in partition.isr if member != broker_id) or partition.isr
        leader = NO_LEADER_CHANGE
        if partition.leader == broker_id:
            leader = next(
                (replica for replica in partition.replicas if replica in isr and replica in eligible), NO_LEADER
            )
        if isr != partition.isr or leader != NO_LEADER_CHANGE:
            yield PartitionChangeRecord(index, topic.topic_id, isr=isr if isr != partition.isr else None, leader=leader)


def on_broker_back(image: MetadataImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yields the partitions without a leader that this broker, unfenced, leads from now on."""
    for topic, index, partition in _partitions(image):
        if partition.leader == NO_LEADER and broker_id in partition.isr:
            yield PartitionChangeRecord(index, topic.topic_id, leader=broker_id)


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition

"""Whether a loaded log may be decided on: a database that ends below what somebody has seen is an older one. Pure.

It may be a restored backup, or a replica that was promoted before it had everything. Deciding on it would give offsets,
leader epochs, shard epochs and producer ids out twice. So its controller refuses to be active until an operator gives
up what is missing; then everything that only grows makes a jump beyond what may have been given out. A record raises
such a number by one at most (a producer-id block by its size), so the count of lost records bounds the jump.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord, PartitionRecord, ProducerIdsRecord, ShardOwnerRecord
from tailrace_controller.decide.producer_ids import BLOCK_SIZE
from tailrace_controller.metadata_log.lease_row import Lease

MARGIN = 1000  # for what was decided and seen by nobody who told
NOTHING_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Seen:
    """The highest offset of the metadata log, and the highest controller epoch, that somebody knows of."""

    offset: int = NOTHING_OFFSET
    epoch: int = -1

    def and_(self, other: "Seen") -> "Seen":
        """The higher of both, each for itself."""
        return Seen(max(self.offset, other.offset), max(self.epoch, other.epoch))


@dataclass(frozen=True, slots=True)
class Jump:
    """Where a log goes on after its restored part was accepted."""

    base_offset: int
    epoch: int
    lost: int


def contradicts(lease: Lease, seen: Seen) -> bool:
    """Whether this database cannot be the one in which that was seen, or not as it was then."""
    return seen.offset >= lease.next_offset or seen.epoch > lease.epoch


def is_accepted(lease: Lease, seen: Seen) -> bool:
    """Whether an operator has given up everything up to what was seen."""
    return lease.accepted_offset >= max(seen.offset, 0)


def refusal(lease: Lease, seen: Seen) -> str:
    """The sentence for the operator."""
    offset = max(seen.offset, lease.next_offset)  # a log of this length and another history is not this one either
    return (
        f"the metadata database ends at offset {lease.next_offset - 1} (controller epoch {lease.epoch}), but offset "
        f"{offset} (epoch {seen.epoch}) was seen before: it may be a restored backup. Nothing is decided until "
        f"the right database is back or what is missing is given up: tailrace controller accept-restored "
        f"--seen-offset {offset}"
    )


def jump(lease: Lease, seen: Seen) -> Jump:
    """Returns how far everything must go beyond what may have been given out."""
    lost = max(seen.offset + 1 - lease.next_offset, 0) + MARGIN
    return Jump(lease.next_offset + lost, max(lease.epoch, seen.epoch) + MARGIN, lost)


def records(image: MetadataImage, lost: int) -> Iterator[MetadataRecord]:
    """Yields what raises every leader epoch, shard epoch and the next producer id."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield PartitionRecord(
                index,
                topic.topic_id,
                replicas=partition.replicas,
                isr=partition.isr,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch + lost,
                partition_epoch=partition.partition_epoch + lost,
                directories=partition.directories,
                removing_replicas=partition.removing_replicas,
                adding_replicas=partition.adding_replicas,
                leader_recovery_state=partition.leader_recovery_state,
                eligible_leader_replicas=partition.eligible_leader_replicas or None,
                last_known_elr=partition.last_known_elr or None,
            )
    for shard in image.shards.values():
        yield ShardOwnerRecord(shard.topic, shard.partition, shard.owner, shard.shard_epoch + lost)
    yield ProducerIdsRecord(-1, -1, image.next_producer_id + lost * BLOCK_SIZE)

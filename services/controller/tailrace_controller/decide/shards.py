"""Which coordinator owns which partition of a sharded topic: sticky, balanced, its shard epoch only grows.

Each topic is spread by itself. The first shard epoch is above the partition's leader epoch: in Apache Kafka that one is
the coordinator epoch of transaction markers, and those of a log that came from there must not fence ours.
"""

from collections import Counter
from collections.abc import Iterator

from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage, PartitionImage, ShardImage
from tailrace.metadata.records import MetadataRecord, ShardOwnerRecord
from tailrace.metadata.replay import planned

SHARDED_TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
COORDINATOR = "coordinator"
NOBODY = -1


def with_assignment(
    image: MetadataImage, records: tuple[MetadataRecord, ...], restarted: int = NOBODY
) -> tuple[MetadataRecord, ...]:
    """Returns the records followed by the shard owners that they make necessary."""
    after = planned(image, records)
    return (*records, *assign(after, restarted))


def assign(image: MetadataImage, restarted: int = NOBODY) -> Iterator[ShardOwnerRecord]:
    """Yields the shards that change hands. A restarted coordinator keeps its shards, each with a new epoch.

    Nobody has more than one shard more than anybody else, and no more shards move than that takes.
    """
    live = [service.service_id for service in image.services_of(COORDINATOR)]
    for name in SHARDED_TOPICS:
        topic = image.topic(name)
        if topic is None:
            continue
        shards = [image.shards.get((name, index)) for index in range(len(topic.partitions))]
        owners = [NOBODY if shard is None else shard.owner for shard in shards]
        for index, owner in enumerate(balance(owners, live)):
            shard = shards[index]
            if owner != owners[index] or (owner == restarted != NOBODY):
                yield ShardOwnerRecord(name, index, owner, _next_epoch(shard, topic.partitions[index]))


def _next_epoch(shard: ShardImage | None, partition: PartitionImage) -> int:
    return 1 + (partition.leader_epoch if shard is None else shard.shard_epoch)


def balance(owners: list[int], live: list[int]) -> list[int]:
    """Returns new owners: as few changes as an even spread over the live coordinators allows."""
    if not live:
        return [NOBODY] * len(owners)
    share, extra = divmod(len(owners), len(live))
    held = Counter(owner for owner in owners if owner in live)
    # Those who hold most keep the shards that do not divide evenly, so that fewer move.
    ranked = sorted(live, key=lambda member: (-held[member], member))
    room = {member: share + (rank < extra) for rank, member in enumerate(ranked)}
    kept: list[int] = []
    for owner in owners:
        keeps = room.get(owner, 0) > 0
        if keeps:
            room[owner] -= 1
        kept.append(owner if keeps else NOBODY)
    free = iter([member for member in ranked for _ in range(room[member])])
    return [next(free) if owner == NOBODY else owner for owner in kept]

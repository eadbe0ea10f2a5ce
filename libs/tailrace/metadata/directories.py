"""The ids of log directories in the metadata, and Kafka's reserved ones (KIP-858)."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from tailrace.metadata.image import MetadataImage, PartitionImage

UNASSIGNED: Final = UUID(int=0)  # new: its broker has not said yet where it put the replica
LOST: Final = UUID(int=1)  # on a directory that is offline, nobody knows which
MIGRATING: Final = UUID(int=2)  # somewhere: placed before anybody kept account
RESERVED: Final = frozenset({UNASSIGNED, LOST, MIGRATING})


def is_online(directory_id: UUID, log_dirs: Collection[UUID]) -> bool:
    """Whether a replica's directory is among those its broker has online; what was never said counts as online."""
    if directory_id in (UNASSIGNED, MIGRATING) or not log_dirs:
        return True
    return directory_id != LOST and directory_id in log_dirs


def directory_of(partition: PartitionImage, broker_id: int) -> UUID | None:
    """The directory of a broker's replica; None if it has none, or the metadata are older than KIP-858's."""
    if broker_id not in partition.replicas or not partition.directories:
        return None
    return partition.directories[partition.replicas.index(broker_id)]


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """Where a broker will put a new replica as far as one can tell: in its only directory, if it has one alone."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED if broker.log_dirs else MIGRATING


def of_new(image: MetadataImage, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """The directories of a new partition's replicas; none where no broker registered any."""
    found = tuple([default_directory(image, replica) for replica in replicas])
    return () if all(one == MIGRATING for one in found) else found


def after_move(image: MetadataImage, partition: PartitionImage, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """The directories of a partition that gets these replicas: who stays keeps its own."""
    if not partition.directories:
        known = dict.fromkeys(partition.replicas, MIGRATING)
    else:
        known = dict(zip(partition.replicas, partition.directories, strict=True))
    found = [known.get(replica) or default_directory(image, replica) for replica in replicas]
    return () if all(one == MIGRATING for one in found) else tuple(found)

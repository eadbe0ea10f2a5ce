"""Where replicas go: round-robin over the live brokers, starting where the fewest partitions lead. Pure."""

from collections import Counter
from collections.abc import Sequence

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace_controller.decide.topic_rules import INTERNAL_TOPICS

MAX_REPLICATION_FACTOR = 1  # until brokers replicate


def check_replication_factor(image: MetadataImage, replication_factor: int) -> list[int]:
    """Returns the brokers that may get replicas; INVALID_REPLICATION_FACTOR, with Kafka's sentences, if too few."""
    usable = [broker.broker_id for broker in image.live_brokers() if not broker.in_controlled_shutdown]
    why = None
    if not usable and image.brokers:
        why = "All brokers are currently fenced or in controlled shutdown."
    elif replication_factor > len(image.brokers):
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(image.brokers)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    elif replication_factor > MAX_REPLICATION_FACTOR:
        why = f"This version of Tailrace keeps {MAX_REPLICATION_FACTOR} replica of each partition."
    if why is not None:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {why}",
        )
    return usable


def start_broker(image: MetadataImage, brokers: Sequence[int]) -> int:
    """Returns the index in brokers to begin with: the one that leads the fewest partitions of users' topics."""
    load: Counter[int] = Counter()
    for topic in image.topics.values():
        if topic.name not in INTERNAL_TOPICS:
            load.update(partition.replicas[0] for partition in topic.partitions)
    return min(range(len(brokers)), key=lambda index: (load[brokers[index]], index))


def place(brokers: Sequence[int], count: int, replication_factor: int, start: int) -> list[tuple[int, ...]]:
    """Returns the replicas of count partitions: partition p gets the brokers at start+p, start+p+1, ... (modulo)."""
    many = len(brokers)
    return [
        tuple(brokers[(start + index + step) % many] for step in range(replication_factor)) for index in range(count)
    ]


def check_manual(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Refuses a manual assignment as Kafka does: INVALID_REPLICA_ASSIGNMENT with a sentence that names the broker."""
    why = None
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    for broker_id in replicas:
        if broker_id not in image.brokers:
            why = f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            break
        if list(replicas).count(broker_id) > 1:
            why = f"The manual partition assignment includes the broker {broker_id} more than once."
            break
    if why is None and expected is not None and len(replicas) != expected:
        why = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected} replica(s)."
        )
    if why is not None:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    if len(replicas) > MAX_REPLICATION_FACTOR:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"This version of Tailrace keeps {MAX_REPLICATION_FACTOR} replica of each partition.",
        )


def live_replicas(image: MetadataImage, replicas: Sequence[int], index: int) -> tuple[int, ...]:
    """Returns those that can be in sync from the start; INVALID_REPLICA_ASSIGNMENT if there are none."""
    usable = {broker.broker_id for broker in image.live_brokers() if not broker.in_controlled_shutdown}
    isr = tuple(replica for replica in replicas if replica in usable)
    if not isr:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown.",
        )
    return isr

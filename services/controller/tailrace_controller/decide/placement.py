"""Where replicas go: round-robin over the live brokers, their racks in turn, from where the fewest partitions lead.

Partition p of 12 on four nodes with three replicas gets N(p), N(p+1), N(p+2). Brokers are taken in the order of their
ids, one of each rack after the other, and no rack gets a second replica of a partition before every rack has one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, zip_longest
from typing import NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace_controller.decide import elections


class Placed(NamedTuple):
    """The replicas of a new partition and those that are in sync from the start: the first of these leads."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Candidates(NamedTuple):
    """The brokers that may get replicas, in the order of placement; spare ones, who are not live, only if they must."""

    live: list[BrokerImage]
    spare: list[BrokerImage]


def usable_brokers(image: MetadataImage) -> list[BrokerImage]:
    """Returns the brokers that live and stay."""
    return [broker for broker in image.live_brokers() if not broker.in_controlled_shutdown]


def candidates(image: MetadataImage, replication_factor: int) -> Candidates:
    """Returns the brokers that may get replicas of a new partition.

    INVALID_REPLICATION_FACTOR, with Kafka's sentences, if there are too few.
    """
    usable = usable_brokers(image)
    why = None
    if not usable and image.brokers:
        why = "All brokers are currently fenced or in controlled shutdown."
    elif replication_factor > len(image.brokers):
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(image.brokers)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    if why is not None:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {why}",
        )
    spare = [broker for _, broker in sorted(image.brokers.items()) if broker not in usable]
    return Candidates(by_rack(usable), by_rack(spare))


def by_rack(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """Returns the brokers with their racks in turn, so that neighbours are in different racks where possible."""
    racks: dict[str, list[BrokerImage]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker)
    rounds = zip_longest(*(members for _, members in sorted(racks.items())))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


class Load:
    """How many partitions of users' topics begin at each broker: counted once, when a placement first asks."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    @cached_property
    def _first(self) -> Counter[int]:
        topics = [topic for topic in self._image.topics.values() if topic.name not in INTERNAL_TOPICS]
        return Counter(partition.replicas[0] for topic in topics for partition in topic.partitions)

    def add(self, name: str, placed: Iterable[Placed]) -> None:
        """Counts a new topic, too."""
        if name not in INTERNAL_TOPICS:
            self._first.update(partition.replicas[0] for partition in placed)

    def start(self, brokers: Sequence[BrokerImage]) -> int:
        """Returns the index in brokers to begin with: the one at which the fewest partitions begin."""
        return min(range(len(brokers)), key=lambda index: (self._first[brokers[index].broker_id], index))


def place(brokers: Candidates, count: int, replication_factor: int, start: int) -> list[Placed]:
    """Returns count partitions: partition p begins at the live broker start+p (modulo) and goes on from there."""
    live = {broker.broker_id for broker in brokers.live}
    placed = []
    for partition in range(count):
        at = (start + partition) % len(brokers.live)
        replicas = _replicas([*brokers.live[at:], *brokers.live[:at], *brokers.spare], replication_factor)
        placed.append(Placed(replicas, tuple(replica for replica in replicas if replica in live)))
    return placed


def _replicas(brokers: Sequence[BrokerImage], replication_factor: int) -> tuple[int, ...]:
    """Takes brokers in turn, those of a rack that has one only when every rack has as many."""
    chosen: list[int] = []
    waiting = list(brokers)
    while len(chosen) < replication_factor:
        racks: set[str] = set()
        later = []
        for broker in waiting:
            if len(chosen) < replication_factor and (broker.rack or "") not in racks:
                racks.add(broker.rack or "")
                chosen.append(broker.broker_id)
            else:
                later.append(broker)
        waiting = later
    return tuple(chosen)


def check_manual(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Refuses a manual assignment as Kafka does: INVALID_REPLICA_ASSIGNMENT with a sentence that names the broker."""
    why = None
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    for broker_id in sorted(replicas):
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


def manual(image: MetadataImage, replicas: Sequence[int], index: int) -> Placed:
    """Returns a partition with these replicas; INVALID_REPLICA_ASSIGNMENT if none of them can be in sync."""
    isr = tuple(replica for replica in replicas if elections.may_lead(image, replica))
    if not isr:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown.",
        )
    return Placed(tuple(replicas), isr)

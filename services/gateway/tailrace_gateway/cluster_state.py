"""What an operator asks first, worked out of one image: who is away, and which partitions that hurts. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage
from tailrace.metadata.moves import Partition

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class BrokerStatus(StrEnum):
    """KIP-631's states of a registered broker."""

    LIVE = "live"
    FENCED = "fenced"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One registered broker and its share of the partitions."""

    broker_id: int
    status: BrokerStatus
    rack: str | None
    leaders: int
    replicas: int
    in_sync: int
    leaving: int  # replicas on their way to other brokers


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Kafka's words: a partition is offline without a leader, under min ISR when acks=all is refused, and so on."""

    brokers: tuple[BrokerState, ...]
    topics: int
    partitions: int
    offline: tuple[Partition, ...]
    under_replicated: tuple[Partition, ...]
    under_min_isr: tuple[Partition, ...]
    at_min_isr: tuple[Partition, ...]
    not_preferred: tuple[Partition, ...]
    reassigning: tuple[Partition, ...]
    with_elr: int


def status_of(broker: BrokerImage) -> BrokerStatus:
    """A fenced broker is fenced, whatever else it was doing."""
    if broker.fenced:
        return BrokerStatus.FENCED
    return BrokerStatus.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerStatus.LIVE


def min_isr_of(image: MetadataImage, topic: str, replicas: int, default: int) -> int:
    """From how many in-sync replicas on acks=all is taken: the topic's own, the cluster's or the file's (KIP-966)."""
    own = image.configs.get((ConfigResource.TOPIC, topic), {}).get(MIN_INSYNC_REPLICAS)
    shared = image.configs.get((ConfigResource.BROKER, ALL_BROKERS), {}).get(MIN_INSYNC_REPLICAS)
    return min(int(own or shared or default), max(replicas, 1))


def state_of(image: MetadataImage, min_insync_replicas: int) -> ClusterState:
    """The state of an image; min_insync_replicas is what brokers' files say, where nothing else does."""
    led, held, synced, leaving = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    lists: dict[str, list[Partition]] = {
        name: [] for name in ("offline", "under_replicated", "under_min_isr", "at_min_isr", "not_preferred", "moving")
    }
    partitions = with_elr = 0
    for name, topic in sorted(image.topics.items()):
        factor = len(topic.partitions[0].replicas) if topic.partitions else 0
        min_isr = min_isr_of(image, name, factor, min_insync_replicas)
        for index, partition in enumerate(topic.partitions):
            partitions += 1
            with_elr += bool(partition.eligible_leader_replicas)
            led[partition.leader] += 1
            held.update(partition.replicas)
            synced.update(partition.isr)
            if partition.removing_replicas:
                leaving.update(partition.removing_replicas)
            for word in _words(partition, min_isr):
                lists[word].append((name, index))
    return ClusterState(
        brokers=tuple(
            BrokerState(node, status_of(broker), broker.rack, led[node], held[node], synced[node], leaving[node])
            for node, broker in sorted(image.brokers.items())
        ),
        topics=len(image.topics),
        partitions=partitions,
        offline=tuple(lists["offline"]),
        under_replicated=tuple(lists["under_replicated"]),
        under_min_isr=tuple(lists["under_min_isr"]),
        at_min_isr=tuple(lists["at_min_isr"]),
        not_preferred=tuple(lists["not_preferred"]),
        reassigning=tuple(lists["moving"]),
        with_elr=with_elr,
    )


def _words(partition: PartitionImage, min_isr: int) -> list[str]:
    """Which of Kafka's gauges count this partition."""
    in_sync = len(partition.isr)
    checks = {
        "offline": partition.leader < 0,
        "under_replicated": partition.is_under_replicated,
        "under_min_isr": in_sync < min_isr,
        "at_min_isr": in_sync == min_isr,
        "not_preferred": partition.leader != partition.replicas[0],
        "moving": partition.is_reassigning,
    }
    return [word for word, holds in checks.items() if holds]

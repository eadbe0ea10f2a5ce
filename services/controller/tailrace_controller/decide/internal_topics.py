"""Internal topics: partitions, configs and replicas of each. They are made with what the cluster has and grow with it.

A topic has these settings whoever asks for it first (Kafka's AutoTopicCreationManager gives the same ones).
"""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.config import Config
from tailrace.kafka.topics import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage
from tailrace.metadata.records import PartitionChangeRecord
from tailrace_controller.decide import placement, reassignments, topic_rules
from tailrace_controller.decide.elections import Elections, may_lead


class Settings(NamedTuple):
    """What an internal topic is made with where the request does not say."""

    num_partitions: int
    configs: dict[str, str]


def own_settings(name: str, config: Config) -> Settings | None:
    """The settings of an internal topic that coordinators write; None for any other."""
    if name == GROUP_METADATA_TOPIC:
        configs = {"compression.type": "producer", "segment.bytes": str(config.offsets_topic_segment_bytes)}
        return Settings(config.offsets_topic_num_partitions, {"cleanup.policy": "compact", **configs})
    if name == TRANSACTION_STATE_TOPIC:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            topic_rules.MIN_INSYNC_REPLICAS: str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            topic_rules.UNCLEAN_LEADER_ELECTION: "false",
        }
        return Settings(config.transaction_state_log_num_partitions, configs)
    return None


def wanted_replication_factor(image: MetadataImage, name: str, config: Config) -> int:
    """Returns the configured replication factor of an internal topic, but not more than there are live brokers."""
    wanted = {
        GROUP_METADATA_TOPIC: config.offsets_topic_replication_factor,
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_replication_factor,
        SHARE_GROUP_STATE_TOPIC: config.share_coordinator_state_topic_replication_factor,
    }[name]
    live = sum(may_lead(image, broker_id) for broker_id in image.brokers)
    return max(1, min(wanted, live))


def grow(image: MetadataImage, config: Config) -> Iterator[PartitionChangeRecord]:
    """Yields reassignments of internal partitions that have fewer replicas than the live brokers allow.

    No replica is taken away, and a reassignment under way is left alone: it is looked at again when it is done. The
    preferred leaders are spread again, so that a topic that one broker led alone comes to be led by all.
    """
    elections = Elections(image, config)
    live = placement.by_rack(image.brokers[broker_id] for broker_id in sorted(elections.may_lead))
    for name in sorted(INTERNAL_TOPICS & image.topics.keys()):
        topic = image.topics[name]
        wanted = wanted_replication_factor(image, name, config)
        for index, partition in enumerate(topic.partitions):
            if len(partition.replicas) >= wanted or partition.is_reassigning:
                continue
            target = _grown(live, index, partition, wanted)
            record = reassignments.begin(elections, topic, index, partition, target)
            if record is not None:
                yield record


def are_moving(image: MetadataImage) -> bool:
    """Says whether a reassignment of an internal partition is under way."""
    topics = [image.topics[name] for name in INTERNAL_TOPICS & image.topics.keys()]
    return any(partition.is_reassigning for topic in topics for partition in topic.partitions)


def _grown(live: list[BrokerImage], index: int, partition: PartitionImage, wanted: int) -> tuple[int, ...]:
    at = index % len(live)
    ring = [*live[at:], *live[:at]]
    racks = {broker.broker_id: broker.rack or "" for broker in ring}
    chosen = list(partition.replicas)
    while len(chosen) < wanted:
        taken = {racks.get(replica) for replica in chosen}
        free = [broker_id for broker_id in racks if broker_id not in chosen]
        chosen.append(next((one for one in free if racks[one] not in taken), free[0]))
    order = {broker_id: position for position, broker_id in enumerate(racks)}
    return tuple(sorted(chosen, key=lambda replica: order.get(replica, len(order))))

"""An image as it must be before another system serves its logs: nobody leads, who may lead again stays known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, ResourceKey, TopicImage
from tailrace.metadata.records import NO_LEADER, NO_UUID


def moved(
    image: MetadataImage,
    broker_ids: Mapping[int, int],
    closed_epochs: Mapping[int, int],
    directories: Mapping[int, UUID],
) -> MetadataImage:
    """The image for brokers with new ids (old to new); every replica must have one.

    closed_epochs (by new id) are those of clean shutdowns, or -1: a broker that registers with another one leaves every
    ISR and ELR, as it may have lost the end of its logs (KIP-966). directories (by new id) are where its logs are now.
    """
    brokers = {
        new: BrokerImage(
            broker_id=new,
            broker_epoch=max(closed_epochs[new], 0),
            incarnation_id=NO_UUID,
            log_dirs=(directories[new],),
        )
        for new in sorted(broker_ids.values())
    }
    topics = {
        name: TopicImage(name, topic.topic_id, tuple(_unled(one, broker_ids, directories) for one in topic.partitions))
        for name, topic in image.topics.items()
    }
    configs: dict[ResourceKey, Mapping[str, str]] = {}
    for (kind, name), values in image.configs.items():
        if kind != ConfigResource.BROKER or not name:
            configs[kind, name] = values
        elif int(name) in broker_ids:
            configs[kind, str(broker_ids[int(name)])] = values
    return replace(image, brokers=brokers, services={}, topics=topics, configs=configs)


def _unled(partition: PartitionImage, broker_ids: Mapping[int, int], directories: Mapping[int, UUID]) -> PartitionImage:
    """Who was in sync is eligible: the first of them that comes back leads, the others follow it."""

    def renamed(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(broker_ids[old] for old in ids)

    eligible = dict.fromkeys((*partition.isr, *partition.eligible_leader_replicas))
    last = partition.last_known_elr or ((partition.leader,) if partition.leader >= 0 else tuple(eligible)[:1])
    replicas = renamed(partition.replicas)
    return replace(
        partition,
        replicas=replicas,
        isr=(),
        leader=NO_LEADER,
        partition_epoch=partition.partition_epoch + 1,
        directories=tuple(directories[replica] for replica in replicas),
        removing_replicas=renamed(partition.removing_replicas),
        adding_replicas=renamed(partition.adding_replicas),
        eligible_leader_replicas=renamed(tuple(eligible)),
        last_known_elr=renamed(last or partition.replicas[:1]),
    )

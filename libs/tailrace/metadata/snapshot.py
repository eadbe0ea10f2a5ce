"""An image as the records that rebuild it: what a snapshot holds, in an order that replays."""

from collections.abc import Iterator

from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    ServiceRecord,
    ShardOwnerRecord,
    TopicRecord,
)


def to_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yields records whose replay on an empty image gives this image (but for its offset and epoch)."""
    yield ClusterRecord(image.cluster_id)
    for name, level in image.features.items():
        yield FeatureLevelRecord(name, level)
    for broker in image.brokers.values():
        yield RegisterBrokerRecord(
            broker_id=broker.broker_id,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.broker_epoch,
            end_points=broker.endpoints,
            features=broker.features,
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=broker.log_dirs,
        )
    for service in image.services.values():
        yield ServiceRecord(
            service.role, service.service_id, service.service_epoch, service.incarnation_id, service.endpoints
        )
    for topic in image.topics.values():
        yield from _topic(topic)
    for (resource_type, resource_name), configs in image.configs.items():
        for key, value in configs.items():
            yield ConfigRecord(resource_type, resource_name, key, value)
    for entity, quotas in image.quotas.items():
        for key, rate in quotas.items():
            yield ClientQuotaRecord(tuple(QuotaEntity(*part) for part in entity), key, rate)
    for credentials in image.scram.values():
        yield from credentials.values()
    for shard in image.shards.values():
        yield ShardOwnerRecord(shard.topic, shard.partition, shard.owner, shard.shard_epoch)
    for acl_id, acl in image.acl_ids.items():
        yield AccessControlEntryRecord.of(acl_id, acl)
    yield ProducerIdsRecord(-1, -1, image.next_producer_id)


def _topic(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(topic.name, topic.topic_id)
    for index, partition in enumerate(topic.partitions):
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            replicas=partition.replicas,
            isr=partition.isr,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=partition.directories,
            removing_replicas=partition.removing_replicas,
            adding_replicas=partition.adding_replicas,
            leader_recovery_state=partition.leader_recovery_state,
            eligible_leader_replicas=partition.eligible_leader_replicas or None,
            last_known_elr=partition.last_known_elr or None,
        )

"""How each record changes the image, in one copy per batch: a draft copies a mapping when it first writes to it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from tailrace.access.image import AclImage
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    QuotaKey,
    ServiceImage,
    ShardImage,
    TopicImage,
)
from tailrace.metadata.records import (
    NO_LEADER_CHANGE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveServiceRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ServiceRecord,
    ShardOwnerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

T = TypeVar("T")


class _Draft:
    """An image under construction."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.changes: dict[str, Any] = {}
        self.partitions: dict[str, list[PartitionImage]] = {}

    def mapping(self, name: str) -> dict[Any, Any]:
        """Returns this draft's own copy of one of the image's mappings."""
        if name not in self.changes:
            self.changes[name] = dict(getattr(self.image, name))
        mine: dict[Any, Any] = self.changes[name]
        return mine

    def peek(self, name: str) -> Any:
        """Returns a mapping or value for reading only."""
        return self.changes.get(name, getattr(self.image, name))

    def partitions_of(self, topic_id: UUID) -> list[PartitionImage]:
        """Returns the growing list of a topic's partitions."""
        name = self.peek("topic_names")[topic_id]
        if name not in self.partitions:
            self.partitions[name] = list(self.peek("topics")[name].partitions)
        return self.partitions[name]

    def finish(self) -> MetadataImage:
        """Returns the new image."""
        for name, partitions in self.partitions.items():
            topics = self.mapping("topics")
            topics[name] = replace(topics[name], partitions=tuple(partitions))
        if "acl_ids" in self.changes:
            self.changes["acls"] = self._acls()
        return replace(self.image, **self.changes) if self.changes else self.image

    def _acls(self) -> AclImage:
        before, after = self.image.acl_ids, self.changes["acl_ids"]
        added = [acl for acl_id, acl in after.items() if acl_id not in before]
        removed = [acl for acl_id, acl in before.items() if acl_id not in after]
        return self.image.acls.changed(added, removed)


def replay(image: MetadataImage, records: Iterable[MetadataRecord], offset: int, epoch: int) -> MetadataImage:
    """Returns the image after a batch whose last record has this offset; copies each touched mapping once."""
    draft = _Draft(image)
    for record in records:
        RULES[type(record)](draft, record)
    return replace(draft.finish(), offset=offset, epoch=epoch)


def planned(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """Returns the image as it will be with these records, which have no offset yet."""
    return replay(image, records, image.offset, image.epoch)


def changed(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Returns a partition after a change of it."""
    elected = record.leader != NO_LEADER_CHANGE
    state, elr, last = record.leader_recovery_state, record.eligible_leader_replicas, record.last_known_elr
    return PartitionImage(  # not by replace(), which takes four times as long: a fenced broker changes thousands
        replicas=_given(record.replicas, partition.replicas),
        isr=_given(record.isr, partition.isr),
        leader=record.leader if elected else partition.leader,
        leader_epoch=partition.leader_epoch + elected,
        partition_epoch=partition.partition_epoch + 1,
        directories=_given(record.directories, partition.directories),
        removing_replicas=_given(record.removing_replicas, partition.removing_replicas),
        adding_replicas=_given(record.adding_replicas, partition.adding_replicas),
        leader_recovery_state=partition.leader_recovery_state if state < 0 else state,
        eligible_leader_replicas=_given(elr, partition.eligible_leader_replicas),
        last_known_elr=_given(last, partition.last_known_elr),
    )


def _given(new: tuple[T, ...] | None, old: tuple[T, ...]) -> tuple[T, ...]:
    return old if new is None else new


def quota_key(entity: Iterable[QuotaEntity]) -> QuotaKey:
    """Returns the canonical key of a quota entity, whatever the order of its parts."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in entity), key=lambda part: part[0]))


def _register_broker(draft: _Draft, record: RegisterBrokerRecord) -> None:
    draft.mapping("brokers")[record.broker_id] = BrokerImage(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=record.end_points,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=record.log_dirs,
        features=record.features,
    )


def _unregister_broker(draft: _Draft, record: UnregisterBrokerRecord) -> None:
    del draft.mapping("brokers")[record.broker_id]


def _change_broker(draft: _Draft, record: BrokerRegistrationChangeRecord) -> None:
    brokers = draft.mapping("brokers")
    broker = brokers[record.broker_id]
    assert broker.broker_epoch == record.broker_epoch
    brokers[record.broker_id] = replace(
        broker,
        fenced={-1: False, 0: broker.fenced, 1: True}[record.fenced],
        in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
        log_dirs=record.log_dirs or broker.log_dirs,
    )


def _topic(draft: _Draft, record: TopicRecord) -> None:
    draft.mapping("topics")[record.name] = TopicImage(record.name, record.topic_id)
    draft.mapping("topic_names")[record.topic_id] = record.name
    draft.partitions.pop(record.name, None)


def _remove_topic(draft: _Draft, record: RemoveTopicRecord) -> None:
    name = draft.mapping("topic_names").pop(record.topic_id)
    del draft.mapping("topics")[name]
    draft.partitions.pop(name, None)
    if (ConfigResource.TOPIC, name) in draft.peek("configs"):
        del draft.mapping("configs")[ConfigResource.TOPIC, name]
    if gone := [shard for shard in draft.peek("shards") if shard[0] == name]:
        shards = draft.mapping("shards")
        for shard in gone:
            del shards[shard]


def _partition(draft: _Draft, record: PartitionRecord) -> None:
    partitions = draft.partitions_of(record.topic_id)
    partition = PartitionImage(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=record.directories,
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        leader_recovery_state=record.leader_recovery_state,
        eligible_leader_replicas=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
    )
    assert record.partition_id <= len(partitions), "partitions are created in the order of their ids"
    partitions[record.partition_id : record.partition_id + 1] = [partition]


def change_partition(draft: _Draft, record: PartitionChangeRecord) -> None:
    partitions = draft.partitions_of(record.topic_id)
    partitions[record.partition_id] = changed(partitions[record.partition_id], record)


def _nested(draft: _Draft, name: str, key: Any, inner: str | int, value: Any) -> None:
    """Sets (or with None removes) one inner value of a mapping of mappings, dropping what becomes empty."""
    mapping = draft.mapping(name)
    changed = {**mapping.get(key, {}), inner: value}
    if value is None:
        del changed[inner]
    if changed:
        mapping[key] = changed
    else:
        mapping.pop(key, None)


def _config(draft: _Draft, record: ConfigRecord) -> None:
    _nested(draft, "configs", (record.resource_type, record.resource_name), record.name, record.value)


def _client_quota(draft: _Draft, record: ClientQuotaRecord) -> None:
    _nested(draft, "quotas", quota_key(record.entity), record.key, None if record.remove else record.value)


def _scram_credential(draft: _Draft, record: UserScramCredentialRecord) -> None:
    _nested(draft, "scram", record.name, record.mechanism, record)


def _remove_scram_credential(draft: _Draft, record: RemoveUserScramCredentialRecord) -> None:
    _nested(draft, "scram", record.name, record.mechanism, None)


def _producer_ids(draft: _Draft, record: ProducerIdsRecord) -> None:
    draft.changes["next_producer_id"] = record.next_producer_id


def _feature_level(draft: _Draft, record: FeatureLevelRecord) -> None:
    features = draft.mapping("features")
    if record.feature_level:
        features[record.name] = record.feature_level
    else:
        features.pop(record.name, None)


def _acl(draft: _Draft, record: AccessControlEntryRecord) -> None:
    draft.mapping("acl_ids")[record.id] = record.acl


def _remove_acl(draft: _Draft, record: RemoveAccessControlEntryRecord) -> None:
    draft.mapping("acl_ids").pop(record.id, None)


def _cluster(draft: _Draft, record: ClusterRecord) -> None:
    draft.changes["cluster_id"] = record.cluster_id


def _no_op(_draft: _Draft, _record: NoOpRecord) -> None:
    """Changes nothing; only the offset moves."""


def _service(draft: _Draft, record: ServiceRecord) -> None:
    draft.mapping("services")[record.role, record.service_id] = ServiceImage(
        record.role, record.service_id, record.service_epoch, record.incarnation_id, record.end_points
    )


def _remove_service(draft: _Draft, record: RemoveServiceRecord) -> None:
    del draft.mapping("services")[record.role, record.service_id]


def _shard_owner(draft: _Draft, record: ShardOwnerRecord) -> None:
    draft.mapping("shards")[record.topic, record.partition] = ShardImage(
        record.topic, record.partition, record.owner, record.shard_epoch
    )


RULES: dict[type, Callable[[_Draft, Any], None]] = {
    RegisterBrokerRecord: _register_broker,
    UnregisterBrokerRecord: _unregister_broker,
    BrokerRegistrationChangeRecord: _change_broker,
    TopicRecord: _topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: change_partition,
    ConfigRecord: _config,
    ClientQuotaRecord: _client_quota,
    UserScramCredentialRecord: _scram_credential,
    RemoveUserScramCredentialRecord: _remove_scram_credential,
    ProducerIdsRecord: _producer_ids,
    FeatureLevelRecord: _feature_level,
    AccessControlEntryRecord: _acl,
    RemoveAccessControlEntryRecord: _remove_acl,
    NoOpRecord: _no_op,
    ClusterRecord: _cluster,
    ServiceRecord: _service,
    RemoveServiceRecord: _remove_service,
    ShardOwnerRecord: _shard_owner,
}

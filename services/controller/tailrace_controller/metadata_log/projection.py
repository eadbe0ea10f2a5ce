"""What a batch of metadata records changes in the SQL projection: rows to write and rows to delete, as values. Pure.

The tables hold what people ask for by name; the views of store.py stand on them. Only what a record touched is written.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from tailrace.config import Config, describe
from tailrace.kafka.ids import format_uuid
from tailrace.kafka.resources import ConfigResource
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import MetadataImage, QuotaKey
from tailrace.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveServiceRecord,
    RemoveTopicRecord,
    ServiceRecord,
    ShardOwnerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tailrace.metadata.replay import quota_key
from tailrace.net.address import Address
from tailrace.quota.entity import text_of
from tailrace_controller.decide import topic_rules


@dataclass(frozen=True, slots=True)
class RowsChange:
    """Delete the rows of a table that match a key; then, with rows, write those."""

    table: str
    key: Mapping[str, object]
    row: Mapping[str, object] | None = None


def changes(
    records: Iterable[MetadataRecord], before: MetadataImage, after: MetadataImage, config: Config
) -> Iterator[RowsChange]:
    """Yields the changes that lead from one image to the next, once per thing that the records touched.

    config is the controller's own: it says what min.insync.replicas is where nobody set it.
    """
    touched: dict[tuple[str, Any], None] = {}
    for record in records:
        for key in _touches(record, after):
            touched[key] = None
    min_isrs = topic_rules.MinIsrs(after, config)
    for kind, key in touched:
        if kind == "partition":
            yield from _partition(key, after, min_isrs)
        else:
            yield from _RENDER[kind](key, before, after)


@lru_cache(maxsize=4096)  # a broker that is fenced changes thousands of partitions, with few different lists
def _broker_ids(members: tuple[int, ...]) -> str:
    return json.dumps(members)


def _touches(record: MetadataRecord, after: MetadataImage) -> list[tuple[str, Any]]:
    match record:
        case TopicRecord() | RemoveTopicRecord():
            return [("topic", record.topic_id)]
        case PartitionRecord():  # a new one also changes the topic's count
            return [("partition", (record.topic_id, record.partition_id)), ("topic", record.topic_id)]
        case PartitionChangeRecord():
            partition = ("partition", (record.topic_id, record.partition_id))
            if (
                record.partition_id == 0 and record.replicas is not None
            ):  # the topic's replication factor is its first's
                return [partition, ("topic", record.topic_id)]
            return [partition]
        case RegisterBrokerRecord() | UnregisterBrokerRecord() | BrokerRegistrationChangeRecord():
            return [("broker", record.broker_id)]
        case ConfigRecord():
            changed: list[tuple[str, Any]] = [("config", (record.resource_type, record.resource_name, record.name))]
            if record.name == topic_rules.MIN_INSYNC_REPLICAS:
                changed += _with_min_isr_of(record, after)
            return changed
        case ClientQuotaRecord():
            return [("quota", (quota_key(record.entity), record.key))]
        case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
            return [("acl", record.id)]
        case ServiceRecord() | RemoveServiceRecord():
            return [("service", (record.role, record.service_id))]
        case ShardOwnerRecord():
            return [("shard", (record.topic, record.partition))]
    return []


def _with_min_isr_of(record: ConfigRecord, after: MetadataImage) -> Iterator[tuple[str, Any]]:
    everywhere = record.resource_type == ConfigResource.BROKER
    own = None if everywhere else after.topic(record.resource_name)
    for topic in after.topics.values() if everywhere else () if own is None else (own,):
        yield from (("partition", (topic.topic_id, index)) for index in range(len(topic.partitions)))


def _topic(topic_id: UUID, before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    topic = after.topic_by_id(topic_id)
    text = format_uuid(topic_id)
    if topic is None:
        if name := before.topic_names.get(topic_id):
            yield RowsChange("config_rows", {"resource_type": "topic", "resource_name": name})
            yield RowsChange("shard_rows", {"topic": name})
        yield RowsChange("partition_rows", {"topic_id": text})
        yield RowsChange("topic_rows", {"topic_id": text})
        return
    row = {
        "name": topic.name,
        "partition_count": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
        "internal": topic.name in INTERNAL_TOPICS,
    }
    yield RowsChange("topic_rows", {"topic_id": text}, row)


def _partition(key: tuple[UUID, int], after: MetadataImage, min_isrs: topic_rules.MinIsrs) -> Iterator[RowsChange]:
    topic_id, index = key
    topic = after.topic_by_id(topic_id)
    if topic is None:
        return
    partition = topic.partitions[index]
    min_isr = min_isrs.of(topic)
    row = {
        "topic": topic.name,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": _broker_ids(partition.replicas),
        "isr": _broker_ids(partition.isr),
        "elr": _broker_ids(partition.eligible_leader_replicas),
        "last_known_elr": _broker_ids(partition.last_known_elr),
        "adding_replicas": _broker_ids(partition.adding_replicas),
        "removing_replicas": _broker_ids(partition.removing_replicas),
        "min_isr": min_isr,
        "offline": partition.leader < 0,
        "under_replicated": partition.is_under_replicated,
        "under_min_isr": len(partition.isr) < min_isr,
    }
    yield RowsChange("partition_rows", {"topic_id": format_uuid(topic_id), "partition_id": index}, row)


def _broker(broker_id: int, _before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    broker = after.brokers.get(broker_id)
    if broker is None:
        yield RowsChange("broker_rows", {"broker_id": broker_id})
        return
    state = "fenced" if broker.fenced else "shutting down" if broker.in_controlled_shutdown else "active"
    row = {
        "state": state,
        "rack": broker.rack,
        "broker_epoch": broker.broker_epoch,
        "endpoints": _endpoints(broker.endpoints),
    }
    yield RowsChange("broker_rows", {"broker_id": broker_id}, row)


def _service(key: tuple[str, int], _before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    service = after.services.get(key)
    where = {"role": key[0], "service_id": key[1]}
    if service is None:
        yield RowsChange("service_rows", where)
        return
    row = {"service_epoch": service.service_epoch, "endpoints": _endpoints(service.endpoints)}
    yield RowsChange("service_rows", where, row)


def _shard(key: tuple[str, int], _before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    if shard := after.shards.get(key):
        row = {"owner": shard.owner, "shard_epoch": shard.shard_epoch}
        yield RowsChange("shard_rows", {"topic": key[0], "partition_id": key[1]}, row)


def _config(key: tuple[int, str, str], _before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    resource_type, resource_name, name = key
    value = after.config(resource_type, resource_name).get(name)
    kind = ConfigResource(resource_type).label
    where = {"resource_type": kind, "resource_name": resource_name, "name": name}
    shown = None if describe.is_sensitive(ConfigResource(resource_type), name) else value
    yield RowsChange("config_rows", where, None if value is None else {"value": shown})


def _quota(key: tuple[QuotaKey, str], _before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    entity, name = key
    value = after.quotas.get(entity, {}).get(name)
    yield RowsChange(
        "quota_rows", {"entity": text_of(entity), "name": name}, None if value is None else {"value": value}
    )


def _acl(acl_id: UUID, _before: MetadataImage, after: MetadataImage) -> Iterator[RowsChange]:
    acl = after.acl_ids.get(acl_id)
    row = None
    if acl is not None:
        row = {
            "resource_type": acl.resource_type.name,
            "resource_name": acl.name,
            "pattern_type": acl.pattern_type.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name,
            "permission_type": acl.permission.name,
        }
    yield RowsChange("acl_rows", {"acl_id": format_uuid(acl_id)}, row)


def _endpoints(endpoints: Iterable[Endpoint]) -> str:
    return json.dumps({endpoint.name: _address(endpoint) for endpoint in endpoints})


def _address(endpoint: Endpoint) -> str:
    """A Unix socket's path has port 0, and may hold colons without being of IPv6."""
    return str(Address(endpoint.host, endpoint.port)) if endpoint.port else f"{endpoint.host}:0"


_RENDER: dict[str, Callable[[Any, MetadataImage, MetadataImage], Iterator[RowsChange]]] = {
    "topic": _topic,
    "broker": _broker,
    "service": _service,
    "shard": _shard,
    "config": _config,
    "quota": _quota,
    "acl": _acl,
}

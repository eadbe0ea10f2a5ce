"""Topics, partitions and replicas as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tailrace_gateway.rest.models import Int16, Int32, Link, Metadata, Rows, Text, Wanted


class Topic(BaseModel):
    kind: Literal["KafkaTopic"] = "KafkaTopic"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    topic_id: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Link
    configs: Link
    partition_reassignments: Link
    authorized_operations: list[str] = []


class ConfigPair(Wanted):
    name: Text
    value: Text | None = None


class ReplicasAssignment(Wanted):
    """Where the replicas of one new partition shall be, the preferred leader first."""

    partition_id: Annotated[Int32, Field(ge=0)]
    broker_ids: Rows[Int32]


class NewTopic(Wanted):
    """Counts may be left out: the cluster's defaults hold then, or what replicas_assignments says."""

    topic_name: Text
    partitions_count: Int32 = -1
    replication_factor: Int16 = -1
    replicas_assignments: Rows[ReplicasAssignment] = Field(default=[])
    configs: Rows[ConfigPair] = Field(default=[])
    validate_only: bool = False


class MorePartitions(Wanted):
    partitions_count: Int32


class Partition(BaseModel):
    kind: Literal["KafkaPartition"] = "KafkaPartition"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Link | None
    leader_id: int | None
    leader_epoch: int
    replica_ids: list[int]
    in_sync_replica_ids: list[int]
    eligible_leader_replica_ids: list[int]
    last_known_elr_ids: list[int]
    is_under_replicated: bool
    replicas: Link
    reassignment: Link | None


class Replica(BaseModel):
    kind: Literal["KafkaReplica"] = "KafkaReplica"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    is_eligible_leader: bool
    is_online: bool
    broker: Link


class SomePartitions(Wanted):
    """A topic, with some of its partitions; without ids, all of them."""

    topic_name: Text
    partition_ids: Rows[Annotated[Int32, Field(ge=0)]] = Field(default=[])

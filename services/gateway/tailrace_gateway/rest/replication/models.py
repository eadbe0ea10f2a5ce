"""Resources of replication as JSON: Confluent's v3 names where it has them; KafkaClusterStatus is ours."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Int32, Link, Metadata, Wanted


class Reassignment(BaseModel):
    """A partition whose replicas are on the way; a copy's bytes say how far, its leader's are the whole."""

    kind: Literal["KafkaReassignment"] = "KafkaReassignment"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Link
    copied_bytes: int | None = None
    total_bytes: int | None = None


class NewReassignment(Wanted):
    """Where the replicas shall be, the preferred leader first."""

    replicas: list[Int32]


class BrokerRemoval(BaseModel):
    """A broker that is being emptied."""

    kind: Literal["KafkaBrokerRemoval"] = "KafkaBrokerRemoval"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    broker_task: Link
    broker: Link


class RemoveBrokerTask(BaseModel):
    """How far the emptying of a broker is; `partition_reassignment_status` is IN_PROGRESS or COMPLETED."""

    kind: Literal["KafkaRemoveBrokerTask"] = "KafkaRemoveBrokerTask"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    shutdown_scheduled: bool = False
    partition_reassignment_status: str
    partitions_left: int
    broker: Link


class ControllerStatus(BaseModel):
    """The active controller as this gateway knows it; stale while none answers."""

    controller_id: int
    controller_epoch: int
    address: str | None
    stale: bool
    metadata_offset: int


class BrokerStatusRow(BaseModel):
    """One registered broker."""

    broker_id: int
    state: str
    rack: str | None
    leader_count: int
    replica_count: int
    in_sync_count: int


class PressedLogDir(BaseModel):
    """A log dir with too little space: its producers are "slowed" or "refused"."""

    broker_id: int
    log_dir: str
    producers: str
    usable_bytes: int
    total_bytes: int


class OfflineLogDir(BaseModel):
    """A log directory whose disk failed; the broker's next start looks at it again."""

    broker_id: int
    log_dir: str


class PartitionName(BaseModel):
    topic_name: str
    partition_id: int


class PartitionCount(BaseModel):
    """How many, and the first of them by name."""

    count: int
    partitions: list[PartitionName]


class ClusterStatus(BaseModel):
    """What an operator asks first, on one page; silent_brokers are live but did not answer within three seconds."""

    kind: Literal["KafkaClusterStatus"] = "KafkaClusterStatus"
    metadata: Metadata
    cluster_id: str
    controller: ControllerStatus
    brokers: list[BrokerStatusRow]
    silent_brokers: list[int]
    log_dirs_under_pressure: list[PressedLogDir]
    offline_log_dirs: list[OfflineLogDir]
    topic_count: int
    partition_count: int
    offline_partitions: PartitionCount
    under_replicated_partitions: PartitionCount
    under_min_isr_partitions: PartitionCount
    at_min_isr_partitions: PartitionCount
    preferred_replica_imbalance: PartitionCount
    reassigning_partitions: PartitionCount
    reassignments: list[Reassignment]

"""The resources as JSON: Confluent's v3 names and nesting. A list is {kind, metadata, data}."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator

Data = TypeVar("Data")


def _utf8(text: str) -> str:
    text.encode()  # JSON can say half a surrogate pair, Kafka's protocol cannot: a ValueError
    return text


Int16 = Annotated[int, Field(ge=-(2**15), lt=2**15)]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Text = Annotated[str, AfterValidator(_utf8)]
Row = TypeVar("Row")
# What a client sends: the first problem is the answer, so no more of them are looked for.
Rows: TypeAlias = Annotated[list[Row], FailFast()]


class Wanted(BaseModel):
    """What a client sends. A field that does not exist is refused: what it should have done would not be done.

    null for a field that may be left out is as if it was left out, as in Confluent's server.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in optional}


class Link(BaseModel):
    """Where something related is."""

    related: str


class Metadata(BaseModel):
    """Where this is, and what it is called."""

    self_: str = Field(serialization_alias="self")
    resource_name: str | None = None


class ListMetadata(BaseModel):
    """Where this list is; nothing is paged."""

    self_: str = Field(serialization_alias="self")
    next: str | None = None


class Listing(BaseModel, Generic[Data]):
    """A list of resources."""

    kind: str
    metadata: ListMetadata
    data: list[Data]


class Cluster(BaseModel):
    kind: Literal["KafkaCluster"] = "KafkaCluster"
    metadata: Metadata
    cluster_id: str
    controller: Link | None
    acls: Link | None  # null where no authorizer is set
    brokers: Link
    broker_configs: Link
    consumer_groups: Link
    topics: Link
    partition_reassignments: Link


class Broker(BaseModel):
    kind: Literal["KafkaBroker"] = "KafkaBroker"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    host: str
    port: int
    rack: str | None
    state: str
    broker_epoch: int
    configs: Link
    partition_replicas: Link
    log_dirs: Link


class LogDir(BaseModel):
    """Sizes and producers are null while it is offline; a full disk's producers are slowed, then refused.

    moving_here_count counts replicas that AlterReplicaLogDirs brings here.
    """

    kind: Literal["TailraceLogDir"] = "TailraceLogDir"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    log_dir: str
    state: Literal["online", "offline"]
    producers: Literal["accepted", "slowed", "refused"] | None
    total_bytes: int | None
    usable_bytes: int | None
    size_bytes: int | None
    partitions_count: int
    moving_here_count: int


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
    replicas_assignments: Rows[ReplicasAssignment] = []
    configs: Rows[ConfigPair] = []
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


class Synonym(BaseModel):
    name: str
    value: str | None
    source: str


class Config(BaseModel):
    """A config of a topic or a broker, or of all brokers; which one says kind."""

    kind: Literal["KafkaTopicConfig", "KafkaBrokerConfig", "KafkaClusterConfig"]
    metadata: Metadata
    cluster_id: str
    topic_name: str | None = None
    broker_id: int | None = None
    config_type: str | None = None
    name: str
    value: str | None
    is_read_only: bool
    is_sensitive: bool
    is_default: bool
    source: str
    synonyms: list[Synonym]


class ConfigValue(Wanted):
    value: Text | None


class ConfigChange(Wanted):
    name: Text
    operation: Literal["SET", "DELETE"] = "SET"
    value: Text | None = None


class ConfigChanges(Wanted):
    data: Rows[ConfigChange]
    validate_only: bool = False


class ConsumerGroup(BaseModel):
    kind: Literal["KafkaConsumerGroup"] = "KafkaConsumerGroup"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    coordinator: Link | None
    consumers: Link
    lag_summary: Link


class Consumer(BaseModel):
    kind: Literal["KafkaConsumer"] = "KafkaConsumer"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignments: Link


class Assignment(BaseModel):
    kind: Literal["KafkaConsumerAssignment"] = "KafkaConsumerAssignment"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Link
    lag: Link | None


class Lag(BaseModel):
    """lag is a distance of offsets, lag_seconds the age of the next record to read, null where that is unknown.

    lag_trend, with ?trend_ms, is by how many records a second the lag grew meanwhile.
    """

    kind: Literal["KafkaConsumerLag"] = "KafkaConsumerLag"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    consumer_id: str
    instance_id: str | None
    client_id: str
    current_offset: int
    log_end_offset: int
    lag: int
    lag_seconds: float | None
    next_timestamp_ms: int | None
    lag_trend: float | None = None


class LagSummary(BaseModel):
    """Of a group that has committed nothing, or nothing that still exists, all but the totals is null or empty.

    uncommitted_partition_count counts partitions that a member has and no offset is committed for: no lag is known.
    """

    kind: Literal["KafkaConsumerGroupLagSummary"] = "KafkaConsumerGroupLagSummary"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str | None
    max_lag_partition_id: int | None
    max_lag: int
    max_lag_seconds: float | None
    total_lag: int
    uncommitted_partition_count: int
    max_lag_consumer: Link | None
    max_lag_partition: Link | None


class SomePartitions(Wanted):
    """A topic, with some of its partitions; without ids, all of them."""

    topic_name: Text
    partition_ids: Rows[Annotated[Int32, Field(ge=0)]] = []


class WantedOffset(Wanted):
    topic_name: Text
    partition_id: Annotated[Int32, Field(ge=0)]
    offset: Annotated[Int64, Field(ge=0)]


class ResetWish(Wanted):
    """Where to, as kafka-consumer-groups.sh has it: value is the offset, the shift, the time or the duration.

    Without topics and topic_regex (RE2, for whole names): all partitions with a committed offset.
    """

    to: Literal["EARLIEST", "LATEST", "CURRENT", "OFFSET", "SHIFT", "DATETIME", "DURATION", "OFFSETS"]
    value: Int64 | Text | None = None
    offsets: Rows[WantedOffset] = []
    topics: Rows[SomePartitions] = []
    topic_regex: Text | None = None
    validate_only: bool = False


class ResetOffset(BaseModel):
    kind: Literal["TailraceOffsetReset"] = "TailraceOffsetReset"
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int | None
    new_offset: int


class RecordData(Wanted):
    """A key or value: text, any JSON, or base64."""

    type: Literal["STRING", "JSON", "BINARY"] = "JSON"
    data: object = None


class RecordHeader(Wanted):
    """A header; its value is base64."""

    name: Text
    value: str | None = None


class NewRecord(Wanted):
    partition_id: int | None = Field(default=None, ge=0)
    headers: Rows[RecordHeader] = []
    key: RecordData | None = None
    value: RecordData | None = None
    timestamp: str | None = None


class WrittenData(BaseModel):
    type: str
    size: int


class WrittenRecord(BaseModel):
    """What became of one record; error_code is 200, or that of a refusal, which then has only a message besides."""

    error_code: int = 200
    message: str | None = None
    cluster_id: str | None = None
    topic_name: str | None = None
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: WrittenData | None = None
    value: WrittenData | None = None

"""Groups, their members, lags and resets as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tailrace_gateway.rest.models import Int32, Int64, Link, Metadata, Rows, Text, Wanted
from tailrace_gateway.rest.topics.models import SomePartitions


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
    offsets: Rows[WantedOffset] = Field(default=[])
    topics: Rows[SomePartitions] = Field(default=[])
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

"""Consumer groups: their members, what these read, and how far they are behind."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from tailrace.kafka.described_groups import DescribedGroup, DescribedGroupMember
from tailrace.kafka.lag import PartitionLag, lag_trend
from tailrace_gateway.rest.errors import not_found
from tailrace_gateway.rest.groups import kafka as groups
from tailrace_gateway.rest.groups import offset_resets
from tailrace_gateway.rest.groups.models import (
    Assignment,
    Consumer,
    ConsumerGroup,
    Lag,
    LagSummary,
    ResetOffset,
    ResetWish,
)
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster, Part

router = APIRouter(
    route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer group"]
)


def group_of(scope: ClusterScope, group: DescribedGroup) -> ConsumerGroup:
    """A group as a resource; its coordinator, as clients are told, is a live broker."""
    here = ("consumer-groups", group.group_id)
    live = next(scope.image.live_brokers(), None)
    return ConsumerGroup(
        metadata=scope.metadata(*here),
        cluster_id=scope.cluster_id,
        consumer_group_id=group.group_id,
        is_simple=not group.protocol_type,
        partition_assignor=group.assignor,
        state=group.state,
        type=group.type,
        coordinator=None if live is None else scope.link("brokers", live.broker_id),
        consumers=scope.link(*here, "consumers"),
        lag_summary=scope.link(*here, "lag-summary"),
    )


def consumer_of(scope: ClusterScope, group_id: str, member: DescribedGroupMember) -> Consumer:
    """A member as a resource."""
    here = ("consumer-groups", group_id, "consumers", member.member_id)
    return Consumer(
        metadata=scope.metadata(*here),
        cluster_id=scope.cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignments=scope.link(*here, "assignments"),
    )


def _lag_path(topic: str, partition: int) -> tuple[Part, ...]:
    return ("lags", topic, "partitions", partition)


def lag_of(scope: ClusterScope, group_id: str, row: PartitionLag, trend: float | None = None) -> Lag:
    """A partition's lag as a resource; an unassigned one has an empty consumer id."""
    member = row.member
    assert row.current_offset is not None and row.log_end_offset is not None and row.lag is not None
    return Lag(
        metadata=scope.metadata("consumer-groups", group_id, *_lag_path(row.topic, row.partition)),
        cluster_id=scope.cluster_id,
        consumer_group_id=group_id,
        topic_name=row.topic,
        partition_id=row.partition,
        consumer_id=member.member_id if member else "",
        instance_id=member.instance_id if member else None,
        client_id=member.client_id if member else "",
        current_offset=row.current_offset,
        log_end_offset=row.log_end_offset,
        lag=row.lag,
        lag_seconds=row.seconds(scope.clock.wall_ms()),
        next_timestamp_ms=row.next_timestamp_ms,
        lag_trend=trend,
    )


def summary_of(scope: ClusterScope, group_id: str, rows: list[PartitionLag]) -> LagSummary:
    """The group's total, and the partition that is furthest behind."""
    known = [row for row in rows if row.lag is not None]
    worst = max(known, key=lambda row: row.lag or 0, default=None)
    now_ms = scope.clock.wall_ms()
    member = worst.member if worst else None
    here = ("consumer-groups", group_id)
    return LagSummary(
        metadata=scope.metadata(*here, "lag-summary"),
        cluster_id=scope.cluster_id,
        consumer_group_id=group_id,
        max_lag_consumer_id=member.member_id if member else "",
        max_lag_instance_id=member.instance_id if member else None,
        max_lag_client_id=member.client_id if member else "",
        max_lag_topic_name=worst.topic if worst else None,
        max_lag_partition_id=worst.partition if worst else None,
        max_lag=(worst and worst.lag) or 0,
        max_lag_seconds=max((age for row in known if (age := row.seconds(now_ms)) is not None), default=None),
        total_lag=sum(row.lag or 0 for row in known),
        uncommitted_partition_count=sum(row.current_offset is None for row in rows),
        max_lag_consumer=scope.link(*here, "consumers", member.member_id) if member else None,
        max_lag_partition=scope.link("topics", worst.topic, "partitions", worst.partition) if worst else None,
    )


async def _member(scope: ClusterScope, group_id: str, consumer_id: str) -> DescribedGroupMember:
    group = await groups.describe(scope.backend, group_id)
    for member in group.members:
        if member.member_id == consumer_id:
            return member
    raise not_found(f"Consumer {consumer_id} cannot be found in group {group_id}.")


@router.get("", response_model=Listing[ConsumerGroup])
async def list_groups(scope: InCluster) -> Response:
    """Lists all groups, without their assignors."""
    rows = (group_of(scope, group) for group in await groups.list_groups(scope.backend))
    return await scope.listed("KafkaConsumerGroupList", ("consumer-groups",), rows)


@router.get("/{group_id}")
async def get_group(scope: InCluster, group_id: str) -> ConsumerGroup:
    """Describes a group."""
    return group_of(scope, await groups.describe(scope.backend, group_id))


@router.delete("/{group_id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_group(scope: InCluster, group_id: str) -> None:
    """Deletes an empty group with its offsets."""
    await groups.delete(scope.backend, group_id)


@router.get("/{group_id}/consumers", response_model=Listing[Consumer])
async def list_consumers(scope: InCluster, group_id: str) -> Response:
    """Lists a group's members."""
    group = await groups.describe(scope.backend, group_id)
    rows = (consumer_of(scope, group_id, member) for member in group.members)
    return await scope.listed("KafkaConsumerList", ("consumer-groups", group_id, "consumers"), rows)


@router.get("/{group_id}/consumers/{consumer_id}")
async def get_consumer(scope: InCluster, group_id: str, consumer_id: str) -> Consumer:
    """Describes a member."""
    return consumer_of(scope, group_id, await _member(scope, group_id, consumer_id))


_ASSIGNMENTS = "/{group_id}/consumers/{consumer_id}/assignments"
_PARTITION = "/{topic_name}/partitions/{partition_id}"


async def _assignments(scope: ClusterScope, group_id: str, consumer_id: str) -> list[Assignment]:
    """What a member reads, each with a link to its lag where the group has committed an offset."""
    member = await _member(scope, group_id, consumer_id)
    committed = await groups.committed(scope.backend, group_id)
    here = ("consumer-groups", group_id, "consumers", consumer_id, "assignments")
    return [
        Assignment(
            metadata=scope.metadata(*here, topic, "partitions", partition),
            cluster_id=scope.cluster_id,
            consumer_group_id=group_id,
            consumer_id=consumer_id,
            topic_name=topic,
            partition_id=partition,
            partition=scope.link("topics", topic, "partitions", partition),
            lag=scope.link("consumer-groups", group_id, *_lag_path(topic, partition))
            if (topic, partition) in committed
            else None,
        )
        for topic, partition in sorted(member.partitions)
    ]


@router.get(_ASSIGNMENTS)
async def list_assignments(scope: InCluster, group_id: str, consumer_id: str) -> Listing[Assignment]:
    """Lists what a member reads."""
    data = await _assignments(scope, group_id, consumer_id)
    here = scope.listing("consumer-groups", group_id, "consumers", consumer_id, "assignments")
    return Listing(kind="KafkaConsumerAssignmentList", metadata=here, data=data)


@router.get(_ASSIGNMENTS + _PARTITION)
async def get_assignment(
    scope: InCluster, group_id: str, consumer_id: str, topic_name: str, partition_id: int
) -> Assignment:
    """Describes one partition that a member reads."""
    for row in await _assignments(scope, group_id, consumer_id):
        if (row.topic_name, row.partition_id) == (topic_name, partition_id):
            return row
    raise not_found(f"Consumer {consumer_id} does not read {topic_name}-{partition_id}.")


IsolationLevel = Annotated[Literal["read_uncommitted", "read_committed"], Query()]


async def _lags(
    scope: ClusterScope, group_id: str, isolation_level: str, only: tuple[str, int] | None = None
) -> list[PartitionLag]:
    group = await groups.describe(scope.backend, group_id)
    return await groups.lags(scope.backend, group, only, read_committed=isolation_level == "read_committed")


@router.get("/{group_id}/lags", response_model=Listing[Lag])
async def list_lags(
    scope: InCluster,
    group_id: str,
    isolation_level: IsolationLevel = "read_uncommitted",
    trend_ms: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    """Lists how far the group is behind, by partition, up to the high watermark or (read_committed) the last stable
    offset. With trend_ms it looks twice, that time apart.
    """
    before: dict[tuple[str, int], int | None] = {}
    began_ms = scope.clock.monotonic_ms()
    if trend_ms:
        before = {(row.topic, row.partition): row.lag for row in await _lags(scope, group_id, isolation_level)}
        await scope.clock.sleep(trend_ms)
    found = [row for row in await _lags(scope, group_id, isolation_level) if row.current_offset is not None]
    elapsed_ms = scope.clock.monotonic_ms() - began_ms
    rows = (
        lag_of(scope, group_id, row, lag_trend(before.get((row.topic, row.partition)), row.lag, elapsed_ms))
        for row in found
    )
    return await scope.listed("KafkaConsumerLagList", ("consumer-groups", group_id, "lags"), rows)


@router.get("/{group_id}/lags" + _PARTITION)
async def get_lag(
    scope: InCluster,
    group_id: str,
    topic_name: str,
    partition_id: int,
    isolation_level: IsolationLevel = "read_uncommitted",
) -> Lag:
    """Says how far the group is behind on one partition; 404 where it has committed nothing."""
    for row in await _lags(scope, group_id, isolation_level, (topic_name, partition_id)):
        if row.current_offset is not None:
            return lag_of(scope, group_id, row)
    raise not_found(f"Consumer group {group_id} has no committed offset of {topic_name}-{partition_id}.")


@router.get("/{group_id}/lag-summary")
async def get_lag_summary(
    scope: InCluster, group_id: str, isolation_level: IsolationLevel = "read_uncommitted"
) -> LagSummary:
    """Sums up how far the group is behind."""
    return summary_of(scope, group_id, await _lags(scope, group_id, isolation_level))


@router.post("/{group_id}/offsets:reset")
async def reset_offsets(scope: InCluster, group_id: str, wish: ResetWish) -> Listing[ResetOffset]:
    """Moves the committed offsets of a group without members; with validate_only it says what it would do."""
    rows = await offset_resets.reset(scope.backend, group_id, wish, scope.clock.wall_ms())
    data = [
        ResetOffset(
            cluster_id=scope.cluster_id,
            consumer_group_id=group_id,
            topic_name=row.topic,
            partition_id=row.partition,
            current_offset=row.current_offset,
            new_offset=row.new_offset,
        )
        for row in rows
    ]
    here = scope.listing("consumer-groups", group_id, "offsets:reset")
    return Listing(kind="TailraceOffsetResetList", metadata=here, data=data)

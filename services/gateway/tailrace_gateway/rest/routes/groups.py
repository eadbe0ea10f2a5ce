"""Consumer groups: their members, what these read, and how far they are behind."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Response

from tailrace.kafka.described_groups import DescribedGroup, DescribedGroupMember
from tailrace_gateway.rest.errors import not_found
from tailrace_gateway.rest.kafka import groups
from tailrace_gateway.rest.kafka.groups import PartitionLag
from tailrace_gateway.rest.models import Assignment, Consumer, ConsumerGroup, Lag, LagSummary, Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster, Part

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer group"])


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


def lag_of(scope: ClusterScope, group_id: str, row: PartitionLag) -> Lag:
    """A partition's lag as a resource; an unassigned one has an empty consumer id."""
    member = row.member
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
    )


def summary_of(scope: ClusterScope, group_id: str, rows: list[PartitionLag]) -> LagSummary:
    """The group's total, and the partition that is furthest behind."""
    worst = max(rows, key=lambda row: row.lag, default=None)
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
        max_lag=worst.lag if worst else 0,
        total_lag=sum(row.lag for row in rows),
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


@router.get("/{group_id}/lags", response_model=Listing[Lag])
async def list_lags(scope: InCluster, group_id: str) -> Response:
    """Lists how far the group is behind, by partition."""
    lags = await groups.lags(scope.backend, await groups.describe(scope.backend, group_id))
    rows = (lag_of(scope, group_id, row) for row in lags)
    return await scope.listed("KafkaConsumerLagList", ("consumer-groups", group_id, "lags"), rows)


@router.get("/{group_id}/lags" + _PARTITION)
async def get_lag(scope: InCluster, group_id: str, topic_name: str, partition_id: int) -> Lag:
    """Says how far the group is behind on one partition; 404 where it has committed nothing."""
    group = await groups.describe(scope.backend, group_id)
    for row in await groups.lags(scope.backend, group, (topic_name, partition_id)):
        return lag_of(scope, group_id, row)
    raise not_found(f"Consumer group {group_id} has no committed offset of {topic_name}-{partition_id}.")


@router.get("/{group_id}/lag-summary")
async def get_lag_summary(scope: InCluster, group_id: str) -> LagSummary:
    """Sums up how far the group is behind."""
    rows = await groups.lags(scope.backend, await groups.describe(scope.backend, group_id))
    return summary_of(scope, group_id, rows)

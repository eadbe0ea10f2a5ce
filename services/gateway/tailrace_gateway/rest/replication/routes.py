"""Reassignments, emptying and forgetting brokers, and the cluster's status on one page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus

from fastapi import APIRouter

from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.metadata.moves import Copied, Partition
from tailrace.wire.apis import ApiKey
from tailrace_gateway.cluster_state import BrokerStatus
from tailrace_gateway.rest.brokers.routes import registered_broker
from tailrace_gateway.rest.errors import not_found, plain
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.log_dirs import space
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.replication import reassignments
from tailrace_gateway.rest.replication.models import (
    BrokerRemoval,
    BrokerStatusRow,
    ClusterStatus,
    ControllerStatus,
    NewReassignment,
    OfflineLogDir,
    PartitionCount,
    PartitionName,
    PressedLogDir,
    Reassignment,
    RemoveBrokerTask,
)
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics.routes import partition_or_404

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Replication"])
_NAMED_MAX = 50  # partitions that a count names


def reassignment_of(
    scope: ClusterScope, key: Partition, partition: PartitionImage, copied: Copied | None
) -> Reassignment:
    """A reassignment as a resource."""
    name, index = key
    here = ("topics", name, "partitions", index)
    return Reassignment(
        metadata=scope.metadata(*here, "reassignment"),
        cluster_id=scope.cluster_id,
        topic_name=name,
        partition_id=index,
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        replicas=scope.link(*here, "replicas"),
        copied_bytes=None if copied is None else copied.copied_bytes,
        total_bytes=None if copied is None else copied.total_bytes,
    )


async def _reassignments(scope: ClusterScope, topics: Iterable[str]) -> list[Reassignment]:
    moving = {
        (name, index): partition
        for name in topics
        for index, partition in enumerate(scope.topic(name).partitions)
        if partition.is_reassigning
    }
    copied = await reassignments.copied(scope.backend, moving)
    return [reassignment_of(scope, key, moving[key], copied.get(key)) for key in sorted(moving)]


@router.get("/topics/-/partitions/-/reassignment")
async def list_reassignments(scope: InCluster) -> Listing[Reassignment]:
    """Lists every partition that is being reassigned."""
    here = scope.listing("topics", "-", "partitions", "-", "reassignment")
    data = await _reassignments(scope, scope.image.topics)
    return Listing(kind="KafkaReassignmentList", metadata=here, data=data)


@router.get("/topics/{topic_name}/partitions/-/reassignment")
async def list_topic_reassignments(scope: InCluster, topic_name: str) -> Listing[Reassignment]:
    """Lists a topic's partitions that are being reassigned."""
    here = scope.listing("topics", topic_name, "partitions", "-", "reassignment")
    data = await _reassignments(scope, [topic_name])
    return Listing(kind="KafkaReassignmentList", metadata=here, data=data)


@router.get("/topics/{topic_name}/partitions/{partition_id}/reassignment")
async def get_reassignment(scope: InCluster, topic_name: str, partition_id: int) -> Reassignment:
    """Describes a partition's reassignment; 404 if there is none."""
    partition = partition_or_404(scope, topic_name, partition_id)
    if not partition.is_reassigning:
        raise not_found(f"{topic_name}-{partition_id} is not being reassigned.")
    key = (topic_name, partition_id)
    return reassignment_of(scope, key, partition, (await reassignments.copied(scope.backend, [key])).get(key))


@router.put("/topics/{topic_name}/partitions/{partition_id}/reassignment", status_code=HTTPStatus.NO_CONTENT)
async def reassign(scope: InCluster, topic_name: str, partition_id: int, wanted: NewReassignment) -> None:
    """Starts to move a partition to these brokers."""
    partition_or_404(scope, topic_name, partition_id)
    await reassignments.alter(scope.backend, {(topic_name, partition_id): tuple(wanted.replicas)})


@router.delete("/topics/{topic_name}/partitions/{partition_id}/reassignment", status_code=HTTPStatus.NO_CONTENT)
async def cancel_reassignment(scope: InCluster, topic_name: str, partition_id: int) -> None:
    """Goes back to the replicas from before."""
    partition_or_404(scope, topic_name, partition_id)
    await reassignments.alter(scope.backend, {(topic_name, partition_id): None})


@router.delete("/brokers/{broker_id}", status_code=HTTPStatus.ACCEPTED)
async def drain_broker(scope: InCluster, broker_id: int, shrink: bool = False) -> BrokerRemoval:
    """Moves every replica off a broker, which runs on; with shrink a partition may end with one replica fewer."""
    registered_broker(scope, broker_id)
    await reassignments.drain(scope.backend, broker_id, shrink=shrink)
    return BrokerRemoval(
        metadata=scope.metadata("brokers", broker_id),
        cluster_id=scope.cluster_id,
        broker_id=broker_id,
        broker_task=scope.link("remove-broker-tasks", broker_id),
        broker=scope.link("brokers", broker_id),
    )


@router.post("/brokers/{broker_id}:unregister", status_code=HTTPStatus.NO_CONTENT)
async def unregister_broker(scope: InCluster, broker_id: int, force: bool = False) -> None:
    """Forgets a broker that was emptied and stopped; with force also one that runs or holds partitions."""
    broker = registered_broker(scope, broker_id)
    holds = sum(1 for _ in _held(scope.backend.cluster_image(ApiKey.UNREGISTER_BROKER), broker_id))
    if not force and not broker.fenced:
        raise plain(HTTPStatus.CONFLICT, f"Broker {broker_id} runs: stop it first, or force=true.")
    if not force and holds:
        raise plain(HTTPStatus.CONFLICT, f"Broker {broker_id} holds {holds} partitions: empty it first, or force=true.")
    await reassignments.unregister(scope.backend, broker_id)


def _held(image: MetadataImage, broker_id: int) -> Iterable[PartitionImage]:
    for topic in image.topics.values():
        yield from (partition for partition in topic.partitions if broker_id in partition.replicas)


def _is_leaving(held: list[PartitionImage], broker_id: int) -> bool:
    return all(broker_id in partition.removing_replicas for partition in held)


def _task_of(scope: ClusterScope, broker_id: int, left: int) -> RemoveBrokerTask:
    return RemoveBrokerTask(
        metadata=scope.metadata("remove-broker-tasks", broker_id),
        cluster_id=scope.cluster_id,
        broker_id=broker_id,
        partition_reassignment_status="IN_PROGRESS" if left else "COMPLETED",
        partitions_left=left,
        broker=scope.link("brokers", broker_id),
    )


@router.get("/remove-broker-tasks")
async def list_remove_broker_tasks(scope: InCluster) -> Listing[RemoveBrokerTask]:
    """Lists the brokers that every replica is leaving."""
    image = scope.backend.cluster_image(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    held = {broker_id: list(_held(image, broker_id)) for broker_id in sorted(image.brokers)}
    data = [_task_of(scope, node, len(parts)) for node, parts in held.items() if parts and _is_leaving(parts, node)]
    return Listing(kind="KafkaRemoveBrokerTaskList", metadata=scope.listing("remove-broker-tasks"), data=data)


@router.get("/remove-broker-tasks/{broker_id}")
async def get_remove_broker_task(scope: InCluster, broker_id: int) -> RemoveBrokerTask:
    """Says how many partitions a broker holds; 404 for a broker with partitions that nobody moves away."""
    registered_broker(scope, broker_id)
    held = list(_held(scope.backend.cluster_image(ApiKey.LIST_PARTITION_REASSIGNMENTS), broker_id))
    if not _is_leaving(held, broker_id):
        raise not_found(f"Broker {broker_id} is not being emptied.")
    return _task_of(scope, broker_id, len(held))


def _count(partitions: tuple[Partition, ...]) -> PartitionCount:
    named = [PartitionName(topic_name=name, partition_id=index) for name, index in partitions[:_NAMED_MAX]]
    return PartitionCount(count=len(partitions), partitions=named)


@router.get("/status")
async def get_status(scope: InCluster) -> ClusterStatus:
    """Controller, brokers, and the partitions that are not as they should be."""
    state, controller = await scope.backend.state(), scope.backend.controller()
    moving = state.reassigning[:_NAMED_MAX]
    live = [row.broker_id for row in state.brokers if row.status != BrokerStatus.FENCED]
    copied, dirs = await asyncio.gather(
        reassignments.copied(scope.backend, moving), space.troubled(scope.backend, live)
    )
    rows = [(key, scope.image.partition(*key)) for key in moving]
    return ClusterStatus(
        metadata=scope.metadata("status"),
        cluster_id=scope.cluster_id,
        controller=ControllerStatus(**controller._asdict()),
        brokers=[
            BrokerStatusRow(
                broker_id=row.broker_id,
                state=row.status,
                rack=row.rack,
                leader_count=row.leaders,
                replica_count=row.replicas,
                in_sync_count=row.in_sync,
            )
            for row in state.brokers
        ],
        silent_brokers=dirs.silent,
        log_dirs_under_pressure=[
            PressedLogDir(
                broker_id=row.broker_id,
                log_dir=row.log_dir,
                producers=row.level,
                usable_bytes=row.usable_bytes,
                total_bytes=row.total_bytes,
            )
            for row in dirs.pressed
        ],
        offline_log_dirs=[OfflineLogDir(broker_id=broker_id, log_dir=path) for broker_id, path in dirs.offline],
        topic_count=state.topics,
        partition_count=state.partitions,
        offline_partitions=_count(state.offline),
        under_replicated_partitions=_count(state.under_replicated),
        under_min_isr_partitions=_count(state.under_min_isr),
        at_min_isr_partitions=_count(state.at_min_isr),
        preferred_replica_imbalance=_count(state.not_preferred),
        reassigning_partitions=_count(state.reassigning),
        reassignments=[reassignment_of(scope, key, part, copied.get(key)) for key, part in rows if part is not None],
    )

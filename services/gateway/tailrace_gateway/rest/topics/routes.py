"""Topics, their partitions and replicas."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from fastapi import APIRouter, Response

from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import PartitionImage
from tailrace_gateway.rest.errors import not_found, plain, unknown_topic
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics import kafka as topics
from tailrace_gateway.rest.topics.models import MorePartitions, NewTopic, Partition, Replica, Topic

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}/topics", tags=["Topic"])


def topic_resource(
    scope: ClusterScope, name: str, topic_id: object, partitions_count: int, replication_factor: int
) -> Topic:
    """A topic as a resource."""
    here = ("topics", name)
    return Topic(
        metadata=scope.metadata(*here),
        cluster_id=scope.cluster_id,
        topic_name=name,
        topic_id=str(topic_id),
        is_internal=name in INTERNAL_TOPICS,
        replication_factor=replication_factor,
        partitions_count=partitions_count,
        partitions=scope.link(*here, "partitions"),
        configs=scope.link(*here, "configs"),
        partition_reassignments=scope.link(*here, "partitions", "-", "reassignment"),
    )


def topic_of(scope: ClusterScope, name: str) -> Topic:
    """An existing topic as a resource, or 404."""
    topic = scope.topic(name)
    factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    return topic_resource(scope, name, topic.topic_id, len(topic.partitions), factor)


def partition_of(scope: ClusterScope, name: str, index: int, partition: PartitionImage) -> Partition:
    """A partition as a resource."""
    here = ("topics", name, "partitions", index)
    leader = partition.leader
    return Partition(
        metadata=scope.metadata(*here),
        cluster_id=scope.cluster_id,
        topic_name=name,
        partition_id=index,
        leader=None if leader < 0 else scope.link(*here, "replicas", leader),
        leader_id=None if leader < 0 else leader,
        leader_epoch=partition.leader_epoch,
        replica_ids=list(partition.replicas),
        in_sync_replica_ids=list(partition.isr),
        eligible_leader_replica_ids=list(partition.eligible_leader_replicas),
        last_known_elr_ids=list(partition.last_known_elr),
        is_under_replicated=partition.is_under_replicated,
        replicas=scope.link(*here, "replicas"),
        reassignment=scope.link(*here, "reassignment") if partition.is_reassigning else None,
    )


def replica_of(scope: ClusterScope, name: str, index: int, partition: PartitionImage, broker_id: int) -> Replica:
    """A replica as a resource."""
    return Replica(
        metadata=scope.metadata("topics", name, "partitions", index, "replicas", broker_id),
        cluster_id=scope.cluster_id,
        topic_name=name,
        partition_id=index,
        broker_id=broker_id,
        is_leader=broker_id == partition.leader,
        is_in_sync=broker_id in partition.isr,
        is_eligible_leader=broker_id in partition.eligible_leader_replicas,
        is_online=(broker := scope.image.brokers.get(broker_id)) is not None and not broker.fenced,
        broker=scope.link("brokers", broker_id),
    )


def partition_or_404(scope: ClusterScope, name: str, index: int) -> PartitionImage:
    """The partition, or 404."""
    partition = scope.image.partition(name, index)
    if partition is None:
        raise unknown_topic()
    return partition


@router.get("", response_model=Listing[Topic])
async def list_topics(scope: InCluster) -> Response:
    """Lists all topics, internal ones too."""
    return await scope.listed("KafkaTopicList", ("topics",), _topics(scope))


def _topics(scope: ClusterScope) -> Iterator[Topic]:
    for name in sorted(scope.image.topics):
        yield topic_of(scope, name)


@router.post("", status_code=HTTPStatus.CREATED, responses={HTTPStatus.OK: {"model": Topic}})
async def create_topic(scope: InCluster, wanted: NewTopic, response: Response) -> Topic:
    """Creates a topic; with validate_only nothing happens and the status is 200."""
    made = await topics.create(scope.backend, wanted)
    if wanted.validate_only:
        response.status_code = HTTPStatus.OK
    resource = topic_resource(scope, wanted.topic_name, made.topic_id, made.num_partitions, made.replication_factor)
    response.headers["Location"] = resource.metadata.self_
    return resource


@router.get("/{topic_name}")
async def get_topic(scope: InCluster, topic_name: str) -> Topic:
    """Describes a topic."""
    return topic_of(scope, topic_name)


@router.patch("/{topic_name}")
async def add_partitions(scope: InCluster, topic_name: str, wanted: MorePartitions) -> Topic:
    """Raises the number of partitions."""
    topic = topic_of(scope, topic_name)
    await topics.grow(scope.backend, topic_name, wanted.partitions_count)
    return topic.model_copy(update={"partitions_count": wanted.partitions_count})


@router.delete("/{topic_name}", status_code=HTTPStatus.NO_CONTENT)
async def delete_topic(scope: InCluster, topic_name: str, internal: bool = False) -> None:
    """Deletes a topic with all its records; one that the cluster itself works with only with internal=true."""
    if topic_name in INTERNAL_TOPICS and not internal:
        why = f"{topic_name} is internal: what the cluster keeps there is lost with it. internal=true deletes it."
        raise plain(HTTPStatus.FORBIDDEN, why)
    await topics.delete(scope.backend, topic_name)


@router.get("/{topic_name}/partitions", response_model=Listing[Partition])
async def list_partitions(scope: InCluster, topic_name: str) -> Response:
    """Lists a topic's partitions."""
    partitions = scope.topic(topic_name).partitions
    rows = (partition_of(scope, topic_name, index, partition) for index, partition in enumerate(partitions))
    return await scope.listed("KafkaPartitionList", ("topics", topic_name, "partitions"), rows)


@router.get("/{topic_name}/partitions/{partition_id}")
async def get_partition(scope: InCluster, topic_name: str, partition_id: int) -> Partition:
    """Describes a partition."""
    return partition_of(scope, topic_name, partition_id, partition_or_404(scope, topic_name, partition_id))


@router.get("/{topic_name}/partitions/{partition_id}/replicas")
async def list_replicas(scope: InCluster, topic_name: str, partition_id: int) -> Listing[Replica]:
    """Lists a partition's replicas."""
    partition = partition_or_404(scope, topic_name, partition_id)
    data = [replica_of(scope, topic_name, partition_id, partition, node) for node in partition.replicas]
    here = scope.listing("topics", topic_name, "partitions", partition_id, "replicas")
    return Listing(kind="KafkaReplicaList", metadata=here, data=data)


@router.get("/{topic_name}/partitions/{partition_id}/replicas/{broker_id}")
async def get_replica(scope: InCluster, topic_name: str, partition_id: int, broker_id: int) -> Replica:
    """Describes a replica."""
    partition = partition_or_404(scope, topic_name, partition_id)
    if broker_id not in partition.replicas:
        raise not_found(f"Broker {broker_id} holds no replica of {topic_name}-{partition_id}.")
    return replica_of(scope, topic_name, partition_id, partition, broker_id)

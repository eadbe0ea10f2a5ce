"""Who wrote to a partition, and whose transaction is open."""

from __future__ import annotations

from heapq import nsmallest

from fastapi import APIRouter

from tailrace.errors import ErrorCode
from tailrace.wire.hot.producers import DescribedProducer, PartitionProducers, most_telling_first
from tailrace_gateway.rest.errors import check, not_found, translate
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.producers.models import ActiveProducer
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics.routes import partition_or_404

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["Topic"])
# The gateway's event loop also relays data: of very many producers `tailrace topic producers` shows all.
PRODUCERS_MAX = 1_000


@router.get("/{topic_name}/partitions/{partition_id}/producers")
async def list_producers(scope: InCluster, topic_name: str, partition_id: int) -> Listing[ActiveProducer]:
    """Lists the producers that the leader remembers, 1,000 at most: open transactions first, then the latest."""
    described = await _described(scope, topic_name, partition_id)
    chosen = nsmallest(PRODUCERS_MAX, described.producers(), key=most_telling_first)
    data = [_resource(scope, topic_name, partition_id, one) for one in chosen]
    here = scope.listing("topics", topic_name, "partitions", partition_id, "producers")
    return Listing(kind="TailraceProducerList", metadata=here, data=data)


@router.get("/{topic_name}/partitions/{partition_id}/producers/{producer_id}")
async def get_producer(scope: InCluster, topic_name: str, partition_id: int, producer_id: int) -> ActiveProducer:
    """One producer that the leader remembers."""
    described = await _described(scope, topic_name, partition_id)
    found = next((one for one in described.producers() if one.producer_id == producer_id), None)
    if found is None:
        raise not_found(f"Producer {producer_id} is not remembered in {topic_name}-{partition_id}.")
    return _resource(scope, topic_name, partition_id, found)


async def _described(scope: ClusterScope, topic: str, partition: int) -> PartitionProducers:
    leader = partition_or_404(scope, topic, partition).leader
    if leader < 0:
        raise translate(ErrorCode.LEADER_NOT_AVAILABLE, f"Nobody leads {topic}-{partition}.")
    described = await scope.backend.producers(leader, topic, partition)
    check(described.error_code, described.error_message)
    return described


def _resource(scope: ClusterScope, topic: str, partition: int, one: DescribedProducer) -> ActiveProducer:
    return ActiveProducer(
        metadata=scope.metadata("topics", topic, "partitions", partition, "producers", one.producer_id),
        cluster_id=scope.cluster_id,
        topic_name=topic,
        partition_id=partition,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        last_sequence=_known(one.last_sequence),
        last_timestamp_ms=one.last_timestamp,
        coordinator_epoch=_known(one.coordinator_epoch),
        current_txn_start_offset=_known(one.current_txn_start_offset),
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value

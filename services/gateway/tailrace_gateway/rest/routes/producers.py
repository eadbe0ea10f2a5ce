"""Who wrote to a partition, and whose transaction is open."""

from __future__ import annotations

from heapq import nsmallest

from fastapi import APIRouter

from tailrace.errors import ErrorCode
from tailrace.wire.producers import Producer, most_telling_first
from tailrace_gateway.rest.errors import check, translate
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.producer_models import ActiveProducer
from tailrace_gateway.rest.routes.topics import partition_or_404
from tailrace_gateway.rest.scope import InCluster, Scope

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["Topic"])
# The gateway's event loop also relays data: of very many producers `tailrace topic producers` shows all.
PRODUCERS_MAX = 1_000


@router.get("/{topic_name}/partitions/{partition_id}/producers")
async def list_producers(scope: InCluster, topic_name: str, partition_id: int) -> Listing[ActiveProducer]:
    """Lists the producers that the leader remembers, 1,000 at most: open transactions first, then the latest."""
    leader = partition_or_404(scope, topic_name, partition_id).leader
    if leader < 0:
        raise translate(ErrorCode.LEADER_NOT_AVAILABLE, f"Nobody leads {topic_name}-{partition_id}.")
    described = await scope.backend.producers(leader, topic_name, partition_id)
    check(described.error_code, described.error_message)
    chosen = nsmallest(PRODUCERS_MAX, described.producers(), key=most_telling_first)
    data = [_resource(scope, topic_name, partition_id, one) for one in chosen]
    here = scope.listing("topics", topic_name, "partitions", partition_id, "producers")
    return Listing(kind="TailraceProducerList", metadata=here, data=data)


def _resource(scope: Scope, topic: str, partition: int, one: Producer) -> ActiveProducer:
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

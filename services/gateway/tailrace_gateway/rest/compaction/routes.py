"""How dirty a compacted topic's logs are, and when they were last compacted."""

from __future__ import annotations

from fastapi import APIRouter

from tailrace_gateway.rest.compaction import kafka as compaction
from tailrace_gateway.rest.compaction.models import Compaction
from tailrace_gateway.rest.errors import not_found
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}/topics", tags=["Topic"])


@router.get("/{topic_name}/partitions/-/compaction")
async def list_topic_compaction(scope: InCluster, topic_name: str) -> Listing[Compaction]:
    """Lists the replicas of a compacted topic; one that nobody used yet, or whose broker is away, is left out."""
    data = await _described(scope, topic_name)
    here = scope.listing("topics", topic_name, "partitions", "-", "compaction")
    return Listing(kind="TailraceCompactionList", metadata=here, data=data)


@router.get("/{topic_name}/partitions/{partition_id}/compaction/{broker_id}")
async def get_compaction(scope: InCluster, topic_name: str, partition_id: int, broker_id: int) -> Compaction:
    """Describes one replica of a compacted topic."""
    for row in await _described(scope, topic_name):
        if (row.partition_id, row.broker_id) == (partition_id, broker_id):
            return row
    raise not_found(f"Broker {broker_id} tells nothing of the compaction of {topic_name}-{partition_id}.")


async def _described(scope: ClusterScope, topic_name: str) -> list[Compaction]:
    return [
        Compaction(
            metadata=scope.metadata("topics", topic_name, "partitions", row.partition_index, "compaction", node),
            cluster_id=scope.cluster_id,
            topic_name=topic_name,
            partition_id=row.partition_index,
            broker_id=node,
            dirty_ratio=row.dirty_ratio,
            cleaned_offset=row.cleaned_offset,
            last_cleaned_ms=None if row.last_cleaned_ms < 0 else row.last_cleaned_ms,
            uncleanable=row.uncleanable,
        )
        for node, row in await compaction.described(scope.backend, scope.topic(topic_name))
    ]

"""How dirty a compacted topic's logs are, and when they were last compacted."""

from __future__ import annotations

from fastapi import APIRouter

from tailrace_gateway.rest.compaction_models import Compaction
from tailrace_gateway.rest.kafka import compaction
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import InCluster

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["Topic"])


@router.get("/{topic_name}/partitions/-/compaction")
async def list_topic_compaction(scope: InCluster, topic_name: str) -> Listing[Compaction]:
    """Lists the replicas of a compacted topic; one that nobody used yet, or whose broker is away, is left out."""
    topic = scope.topic(topic_name)
    found = await compaction.described(scope.backend, topic)
    data = [
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
        for node, row in found
    ]
    here = scope.listing("topics", topic_name, "partitions", "-", "compaction")
    return Listing(kind="TailraceCompactionList", metadata=here, data=data)

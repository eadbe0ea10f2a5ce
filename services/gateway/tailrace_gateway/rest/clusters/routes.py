"""Clusters: there is one, this."""

from __future__ import annotations

from fastapi import APIRouter

from tailrace_gateway.rest.clusters.models import Cluster
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import AnyCluster, ClusterScope, InCluster

router = APIRouter(prefix="/v3/clusters", tags=["Cluster"])


def cluster_of(scope: ClusterScope) -> Cluster:
    """The cluster as a resource; its controller is what clients are told: a live broker."""
    live = next(scope.image.live_brokers(), None)
    return Cluster(
        metadata=scope.metadata(),
        cluster_id=scope.cluster_id,
        controller=None if live is None else scope.link("brokers", live.broker_id),
        acls=scope.link("acls") if scope.has_acls else None,
        brokers=scope.link("brokers"),
        broker_configs=scope.link("broker-configs"),
        consumer_groups=scope.link("consumer-groups"),
        topics=scope.link("topics"),
        partition_reassignments=scope.link("topics", "-", "partitions", "-", "reassignment"),
    )


@router.get("")
async def list_clusters(scope: AnyCluster) -> Listing[Cluster]:
    """Lists the cluster behind this gateway."""
    listing = scope.listing()
    listing.self_ = scope.root
    return Listing(kind="KafkaClusterList", metadata=listing, data=[cluster_of(scope)])


@router.get("/{cluster_id}")
async def get_cluster(scope: InCluster) -> Cluster:
    """Describes the cluster."""
    return cluster_of(scope)

"""Elections of leaders, as kafka-leader-election holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tailrace.metadata.moves import Partition
from tailrace.wire.apis import ApiKey
from tailrace_gateway.rest.elections import kafka as elections
from tailrace_gateway.rest.errors import translate, unknown_topic
from tailrace_gateway.rest.groups.models import SomePartitions
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing, Rows, Wanted
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Replication"])


class NewElection(Wanted):
    """Without topics: all partitions. UNCLEAN elects any live replica where none leads: records may be lost."""

    election_type: Literal["PREFERRED", "UNCLEAN"] = "PREFERRED"
    topics: Annotated[Rows[SomePartitions], Field(default_factory=list)]


class LeaderElection(BaseModel):
    """A partition of which a leader was to be elected; error_code and message say why none was, else they are null."""

    kind: Literal["TailraceLeaderElection"] = "TailraceLeaderElection"
    cluster_id: str
    topic_name: str
    partition_id: int
    leader_id: int | None
    error_code: int | None
    message: str | None


@router.post("/leaders:elect", response_model=Listing[LeaderElection])
async def elect_leaders(scope: InCluster, wanted: NewElection) -> Response:
    """Gives partitions back to their preferred leaders, the first of their replicas; lists those that needed it."""
    chosen = None if not wanted.topics else list(_chosen(scope, wanted.topics))
    elected = await elections.elect(scope.backend, chosen, unclean=wanted.election_type == "UNCLEAN")
    return await scope.listed("TailraceLeaderElectionList", ("leaders:elect",), _rows(scope, elected))


def _chosen(scope: ClusterScope, topics: list[SomePartitions]) -> Iterator[Partition]:
    image = scope.backend.cluster_image(ApiKey.ELECT_LEADERS)
    for some in topics:
        topic = image.topic(some.topic_name)
        if topic is None:
            raise unknown_topic()
        for index in some.partition_ids or range(len(topic.partitions)):
            yield some.topic_name, index


def _rows(scope: ClusterScope, elected: list[elections.Elected]) -> Iterator[LeaderElection]:
    image = scope.backend.cluster_image(ApiKey.ELECT_LEADERS)
    for one in elected:
        refusal = translate(one.error_code, one.error_message) if one.error_code else None
        leader = image.leader(*one.partition)
        yield LeaderElection(
            cluster_id=scope.cluster_id,
            topic_name=one.partition[0],
            partition_id=one.partition[1],
            leader_id=None if leader < 0 else leader,
            error_code=None if refusal is None else refusal.error_code,
            message=None if refusal is None else refusal.message,
        )

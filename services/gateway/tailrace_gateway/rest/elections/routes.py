"""Elections of leaders, as kafka-leader-election holds them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tailrace.wire.apis import ApiKey
from tailrace_gateway.rest.elections import kafka as elections
from tailrace_gateway.rest.errors import plain, translate
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing, Rows, Wanted
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics.models import SomePartitions
from tailrace_gateway.rest.topics.named_partitions import named_partitions

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Replication"])


class NewElection(Wanted):
    """Without topics: all partitions, with UNCLEAN only if force=true.

    UNCLEAN elects any live replica where none leads: records may be lost.
    """

    election_type: Literal["PREFERRED", "UNCLEAN"] = "PREFERRED"
    topics: Annotated[Rows[SomePartitions], Field(default_factory=list, min_length=1)]  # an empty list is refused


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
async def elect_leaders(scope: InCluster, wanted: NewElection, force: bool = False) -> Response:
    """Gives partitions back to their preferred leaders, the first of their replicas; lists those that needed it."""
    unclean = wanted.election_type == "UNCLEAN"
    if unclean and not wanted.topics and not force:
        why = "UNCLEAN without topics is about every partition, and records may be lost: name topics, or force=true."
        raise plain(HTTPStatus.CONFLICT, why)
    chosen = None
    if wanted.topics:
        image = scope.backend.cluster_image(ApiKey.ELECT_LEADERS)
        chosen = await scope.backend.run(partial(named_partitions, image, wanted.topics))
    elected = await elections.elect(scope.backend, chosen, unclean=unclean)
    return await scope.listed("TailraceLeaderElectionList", ("leaders:elect",), _rows(scope, elected))


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

"""Quotas of users, client ids and addresses, and what limited clients use of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from tailrace.quota.entity import QuotaEntity
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing, Metadata, Rows, Text, Wanted
from tailrace_gateway.rest.quotas import kafka as quotas
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Quota"])


class EntityPart(Wanted):
    """A user, client-id or ip; no name: the default for all that have none of their own."""

    entity_type: Text
    entity_name: Text | None = None


class ClientQuota(BaseModel):
    """What was set for one entity; values by Kafka's keys."""

    kind: Literal["TailraceQuota"] = "TailraceQuota"
    metadata: Metadata
    cluster_id: str
    entity: list[EntityPart]
    values: dict[str, float]


class QuotaValue(Wanted):
    value: float


class QuotaChange(Wanted):
    """Sets a quota; without a value it is removed."""

    entity: Rows[EntityPart]
    name: Text
    value: float | None = None


class QuotaChanges(Wanted):
    data: Rows[QuotaChange]
    validate_only: bool = False


class QuotaUsage(BaseModel):
    """What one account uses of a limit, a second, in the quota's unit; total is since the quota service began to count.

    An account is what is counted together: a default holds for each user, client id and address by itself.
    """

    kind: Literal["TailraceQuotaUsage"] = "TailraceQuotaUsage"
    cluster_id: str
    user: str | None
    client_id: str | None
    ip: str | None
    broker_id: int | None  # with quota.scope=broker
    name: str
    limit: float
    usage: float
    total: float
    throttle_time_ms: int
    throttled: bool


def quota_of(scope: ClusterScope, entity: QuotaEntity) -> ClientQuota:
    """One entity as a resource, or 404."""
    return ClientQuota(
        metadata=scope.metadata("quotas", quotas.id_of(entity)),
        cluster_id=scope.cluster_id,
        entity=[EntityPart(entity_type=kind, entity_name=name) for kind, name in entity],
        values=dict(sorted(quotas.values_of(scope.backend, entity).items())),
    )


@router.get("/quotas", response_model=Listing[ClientQuota])
async def list_quotas(scope: InCluster) -> Response:
    """Lists all entities that have quotas."""
    return await scope.listed("TailraceQuotaList", ("quotas",), _quotas(scope))


def _quotas(scope: ClusterScope) -> Iterator[ClientQuota]:
    for entity in sorted(quotas.all_of(scope.backend), key=quotas.id_of):
        yield quota_of(scope, entity)


@router.post("/quotas:alter", status_code=HTTPStatus.NO_CONTENT)
async def alter_quotas(scope: InCluster, changes: QuotaChanges) -> None:
    """Sets and removes several quotas; each entity has its own answer, and the first refusal is told."""
    wanted: dict[QuotaEntity, dict[str, float | None]] = {}
    for change in changes.data:
        entity = quotas.entity_from((part.entity_type, part.entity_name) for part in change.entity)
        wanted.setdefault(entity, {})[change.name] = change.value
    await quotas.alter(scope.backend, list(wanted.items()), changes.validate_only)


@router.get("/quotas/{entity}")
async def get_quota(scope: InCluster, entity: str) -> ClientQuota:
    """The quotas of one entity: `client-id=app`, `client-id=,user=alice` (an empty name is the default)."""
    return quota_of(scope, quotas.entity_of(entity))


@router.put("/quotas/{entity}/{name}", status_code=HTTPStatus.NO_CONTENT)
async def set_quota(scope: InCluster, entity: str, name: str, wanted: QuotaValue) -> None:
    """Sets one quota of an entity."""
    await quotas.alter(scope.backend, [(quotas.entity_of(entity), {name: wanted.value})])


@router.delete("/quotas/{entity}/{name}", status_code=HTTPStatus.NO_CONTENT)
async def remove_quota(scope: InCluster, entity: str, name: str) -> None:
    """Removes one quota of an entity, or 404."""
    await quotas.remove(scope.backend, quotas.entity_of(entity), name)


@router.get("/quota-usage", response_model=Listing[QuotaUsage])
async def list_quota_usage(scope: InCluster) -> Response:
    """Lists limited clients that were active in the last minute, the largest share of a limit first, 1,000 at most."""
    rows = (
        QuotaUsage(
            cluster_id=scope.cluster_id,
            user=row.user,
            client_id=row.client_id,
            ip=row.ip,
            broker_id=None if row.broker is None else int(row.broker),
            name=row.key,
            limit=row.limit,
            usage=row.rate,
            total=row.total,
            throttle_time_ms=round(row.throttle_time_ms),
            throttled=row.throttled,
        )
        for row in await quotas.usage(scope.backend)
    )
    return await scope.listed("TailraceQuotaUsageList", ("quota-usage",), rows)

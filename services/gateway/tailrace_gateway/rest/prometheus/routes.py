"""Targets for Prometheus, as its HTTP service discovery asks for them (http_sd_configs)."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from tailrace_gateway.rest.scope import AnyCluster

router = APIRouter(tags=["Prometheus"])


class TargetGroup(BaseModel):
    """One process with metrics at /metrics; labels: cluster_id, role and id."""

    targets: list[str]
    labels: dict[str, str]


@router.get("/scrape-targets")
async def list_scrape_targets(scope: AnyCluster) -> list[TargetGroup]:
    """Lists the processes of the gateway's run directory that have metrics, also as a file for file_sd_configs."""
    return [
        TargetGroup(
            targets=[one.address],
            labels={"cluster_id": scope.cluster_id, "role": one.role, "id": str(one.service_id)},
        )
        for one in await scope.backend.scrape_targets()
    ]

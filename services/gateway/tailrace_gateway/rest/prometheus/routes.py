"""Targets for Prometheus, as its HTTP service discovery asks for them (http_sd_configs)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from tailrace.config.hosts import WILDCARDS
from tailrace_gateway.rest.scope import AnyCluster

router = APIRouter(tags=["Prometheus"])


class TargetGroup(BaseModel):
    """One process with metrics at /metrics; labels: cluster_id, role and id."""

    targets: list[str]
    labels: dict[str, str]


@router.get("/scrape-targets")
async def list_scrape_targets(scope: AnyCluster, request: Request) -> list[TargetGroup]:
    """Lists the processes of the gateway's run directory that have metrics, also as a file for file_sd_configs.

    A process that listens on all addresses is listed with the host by which the request came.
    """
    host = request.url.hostname or ""
    return [
        TargetGroup(
            targets=[_reachable(one.address, host)],
            labels={"cluster_id": scope.cluster_id, "role": one.role, "id": str(one.service_id)},
        )
        for one in await scope.backend.scrape_targets()
    ]


def _reachable(address: str, host: str) -> str:
    listening, _, port = address.rpartition(":")
    if listening.strip("[]") not in WILDCARDS:
        return address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

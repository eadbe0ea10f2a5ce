"""Targets for Prometheus: each process with its labels, for those that may describe the cluster."""

from __future__ import annotations

import random

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.scrape_targets import ScrapeTarget

BROKER = ScrapeTarget("broker", 2, "127.0.0.1:4001")


async def test_targets_have_the_form_of_http_service_discovery(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    assert (await http.get("/scrape-targets")).json() == []
    backend.targets = [BROKER]
    answer = await http.get("/scrape-targets")
    assert answer.headers["content-type"] == "application/json"
    labels = {"cluster_id": "memory", "role": "broker", "id": "2"}
    assert answer.json() == [{"targets": ["127.0.0.1:4001"], "labels": labels}]


async def test_targets_are_told_to_those_that_may_describe_the_cluster(backend: MemoryBackend) -> None:
    backend.targets = [BROKER]
    right = Asked("DESCRIBE", "CLUSTER", "kafka-cluster")
    for granted, status in ((False, 403), (True, 200)):
        access = RestAccess(authorizer=Recorder({right}.__contains__ if granted else None))
        app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as user:
            assert (await user.get("/scrape-targets")).status_code == status


@pytest.mark.parametrize(
    ("listening", "came_by", "expected"),
    [
        ("0.0.0.0:4001", "http://here:8080", "here:4001"),
        ("[::]:4001", "http://10.0.0.7:8080", "10.0.0.7:4001"),
        ("0.0.0.0:4001", "http://[fd00::7]:8080", "[fd00::7]:4001"),
        ("10.0.0.8:4001", "http://here:8080", "10.0.0.8:4001"),
    ],
)
async def test_what_listens_on_all_addresses_is_a_target_by_the_host_of_the_request(
    http: httpx.AsyncClient, backend: MemoryBackend, listening: str, came_by: str, expected: str
) -> None:
    backend.targets = [ScrapeTarget("broker", 2, listening)]
    (group,) = (await http.get(f"{came_by}/scrape-targets")).json()
    assert group["targets"] == [expected]

"""Meters as a process opens them: with the configured terms, following the image, by their own broker where asked."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest
import structlog

from support.gateway import ScriptedFollower
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.metadata.image import BrokerImage, MetadataImage, ServiceImage
from tailrace.metadata.records import Endpoint
from tailrace.net.quotas.opening import open_quotas
from tailrace.quota.entity import QuotaEntity


def environment() -> SimpleNamespace:
    log = structlog.wrap_logger(structlog.testing.CapturingLogger(), processors=[])
    return SimpleNamespace(clock=ManualClock(), random=random.Random(1), log=log, boot_id="boot", secret=None)


@pytest.mark.parametrize("scope", ["cluster", "broker"])
async def test_meters_follow_the_image_under_the_configured_terms(scope: str) -> None:
    config = Config.load("broker", overrides={"quota.scope": scope, "quota.max.throttle.ms": "70"})
    limited: dict[QuotaEntity, dict[str, float]] = {(("client-id", "app"),): {"producer_byte_rate": 1000.0}}
    follower = ScriptedFollower(MetadataImage(quotas=limited))
    async with open_quotas(config, environment(), follower, -1, lambda: 0.0) as quotas:
        assert quotas.meter_of(1, b"app").produced(10**6) == 70
        assert quotas.meter_of(1, b"other").produced(10**6) == 0
        assert (quotas.meter_of(1, b"app") is quotas.meter_of(2, b"app")) == (scope == "cluster")
        follower.put(replace(follower.image, quotas={}))
        assert quotas.meter_of(1, b"app").produced(10**6) == 0


@pytest.mark.parametrize(("listener", "at_once"), [("UNIX-boot", 20), ("CLIENT", 2)])
async def test_connections_are_saved_for_those_alone_that_accept_them(listener: str, at_once: int) -> None:
    """A broker that a gateway hands sockets to holds leases, and accepts nobody: no part of a second is kept for it."""
    limited: dict[QuotaEntity, dict[str, float]] = {(("ip", "10.0.0.1"),): {"connection_creation_rate": 20.0}}
    brokers = {n: BrokerImage(n, 1, UUID(int=n), (Endpoint(listener, "b", 1),), None, False) for n in range(9)}
    services = {("gateway", 0): ServiceImage("gateway", 0, 1, UUID(int=0), ())}
    follower = ScriptedFollower(MetadataImage(quotas=limited, brokers=brokers, services=services))
    async with open_quotas(Config.load("gateway"), environment(), follower, 0, lambda: 0.0) as quotas:
        throttles = [quotas.admit("10.0.0.1", 0) for _ in range(30)]
    assert throttles.count(0) == throttles.index(max(throttles)) == at_once + 1  # the last of them is paid later

"""Meters as a process opens them: with the configured terms, following the image, by their own broker where asked."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import structlog

from support.gateway import ScriptedFollower
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.net.quotas.opening import open_quotas
from tailrace.quota.entity import QuotaEntity


@pytest.mark.parametrize("scope", ["cluster", "broker"])
async def test_meters_follow_the_image_under_the_configured_terms(scope: str) -> None:
    config = Config.load("broker", overrides={"quota.scope": scope, "quota.max.throttle.ms": "70"})
    log = structlog.wrap_logger(structlog.testing.CapturingLogger(), processors=[])
    environment = SimpleNamespace(clock=ManualClock(), random=random.Random(1), log=log, boot_id="boot", secret=None)
    limited: dict[QuotaEntity, dict[str, float]] = {(("client-id", "app"),): {"producer_byte_rate": 1000.0}}
    follower = ScriptedFollower(MetadataImage(quotas=limited))
    async with open_quotas(config, environment, follower, -1, lambda: 0.0) as quotas:
        assert quotas.meter_of(1, b"app").produced(10**6) == 70
        assert quotas.meter_of(1, b"other").produced(10**6) == 0
        assert (quotas.meter_of(1, b"app") is quotas.meter_of(2, b"app")) == (scope == "cluster")
        follower.put(replace(follower.image, quotas={}))
        assert quotas.meter_of(1, b"app").produced(10**6) == 0

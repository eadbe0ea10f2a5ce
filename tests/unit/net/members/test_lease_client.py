"""The loop that keeps leases filled, against a quota service over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry, generate_latest

from support.waiting import HUNG_S
from tailrace.metadata.image import MetadataImage, ServiceImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.net.dispatch import Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.members.lease_client import LeaseClient
from tailrace.net.server import serve
from tailrace.quota.entity import ClientQuotas, QuotaEntity, QuotaKind
from tailrace.quota.leased import LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.runtime.clock import SystemClock
from tailrace.wire.apis import INTERNAL_APIS
from tailrace.wire.messages import AcquireLeaseRequest
from tailrace_quota.handlers import HANDLERS
from tailrace_quota.metrics import QuotaMetrics
from tailrace_quota.quota import Quota
from tailrace_quota.scopes import Scopes
from tailrace_quota.store.memory import MemoryStore

LEASE_MS = 100
MANY = 500  # leases
RATE = 1000.0
BOOT_ID = "boot"
QUOTAS: dict[QuotaEntity, dict[str, float]] = {(("client-id", "app"),): {"producer_byte_rate": RATE}}


class SilentLog:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.said = asyncio.Event()

    def warning(self, event: str, **_: object) -> None:
        self.lines.append(event)
        self.said.set()

    info = error = exception = warning


def a_log() -> Any:
    return SilentLog()


def image(paths: dict[int, Path]) -> MetadataImage:
    services = {
        ("quota", number): ServiceImage("quota", number, 1, uuid4(), (Endpoint(f"UNIX-{BOOT_ID}", str(path), 0),))
        for number, path in paths.items()
    }
    gateway = ServiceImage("gateway", 0, 1, uuid4())
    return MetadataImage(offset=1, services={**services, ("gateway", 0): gateway}, quotas=QUOTAS)


class Told(LeasedQuota):
    """Tells when a lease came."""

    def __init__(self) -> None:
        super().__init__(Terms(LEASE_MS, "last", 15_000, 1000), MANY)
        self.leased = asyncio.Event()
        self.most_at_once = 0

    def granted(self, grants, lease_ms, asked_ms, now_ms):  # type: ignore[no-untyped-def]
        super().granted(grants, lease_ms, asked_ms, now_ms)
        self.most_at_once = max(self.most_at_once, len(grants))
        self.leased.set()


@asynccontextmanager
async def quota_service(path: Path, metadata: MetadataImage, log: Any = None) -> AsyncIterator[CollectorRegistry]:
    registry, clock = CollectorRegistry(), SystemClock()
    store = MemoryStore(LEASE_MS, 10, clock.monotonic_ms() - LEASE_MS)
    quota = Quota(store, LEASE_MS, 10, clock, QuotaMetrics(registry), Scopes("cluster", log or a_log()))
    quota.on_image(metadata, metadata)
    server = await serve(
        [Address(str(path), -1)], Service(quota, HANDLERS, INTERNAL_APIS, a_log(), memory=RoleMemory())
    )
    try:
        yield registry
    finally:
        await server.close()


@asynccontextmanager
async def gateway(metadata: MetadataImage, log: Any = None) -> AsyncIterator[tuple[Told, LeaseClient]]:
    leased, clock = Told(), SystemClock()
    leased.update(ClientQuotas(metadata.quotas), 4, clock.monotonic_ms())
    client = LeaseClient(
        leased, lambda: metadata, 0, uuid4(), clock=clock, random=Random(1), log=log or a_log(), boot_id=BOOT_ID
    )
    task = asyncio.create_task(client.run())
    try:
        yield leased, client
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def charge(leased: LeasedQuota) -> float:
    """Charges one byte and returns the rate that now holds."""
    now_ms = SystemClock().monotonic_ms()
    meter = leased.meter("u", "app", now_ms)
    meter.charge(QuotaKind.PRODUCE, 1, now_ms)
    return meter.buckets[QuotaKind.PRODUCE].rate


async def lease(leased: Told) -> float:
    """The rate after the next lease came."""
    leased.leased.clear()
    rate = charge(leased)
    async with asyncio.timeout(HUNG_S):
        await leased.leased.wait()
    return charge(leased) or rate


async def test_the_first_request_brings_a_lease_of_the_whole_rate(tmp_path: Path) -> None:
    metadata = image({0: tmp_path / "q0.sock"})
    async with quota_service(tmp_path / "q0.sock", metadata) as registry, gateway(metadata) as (leased, client):
        meter = leased.meter("u", "app", SystemClock().monotonic_ms())
        assert meter.buckets[QuotaKind.PRODUCE].rate == RATE / 4
        assert await lease(leased) == RATE
        assert client.available
        metrics = generate_latest(registry).decode()
    assert "tailrace_quota_clients 1.0" in metrics
    assert 'tailrace_quota_bytes_total{kind="produce"}' in metrics


async def test_each_brokers_part_has_a_lease_of_its_own(tmp_path: Path) -> None:
    """quota.scope=broker."""
    metadata = image({0: tmp_path / "q0.sock"})
    async with quota_service(tmp_path / "q0.sock", metadata), gateway(metadata) as (leased, _):
        now_ms = SystemClock().monotonic_ms()
        meters = [leased.meter("u", "app", now_ms, broker_id) for broker_id in (0, 1)]
        for meter in meters:
            meter.charge(QuotaKind.PRODUCE, 1, now_ms)
        buckets = [meter.buckets[QuotaKind.PRODUCE] for meter in meters]
        async with asyncio.timeout(HUNG_S):
            while [bucket.rate for bucket in buckets] != [RATE, RATE]:
                leased.leased.clear()
                await leased.leased.wait()


async def test_a_gateway_with_another_scope_is_told_by_the_quota_service(tmp_path: Path) -> None:
    metadata, log = image({0: tmp_path / "q0.sock"}), a_log()
    async with quota_service(tmp_path / "q0.sock", metadata, log) as registry, gateway(metadata) as (leased, _):
        await lease(leased)
        assert log.lines == [] and "tailrace_quota_scope_differs 0.0" in generate_latest(registry).decode()
    async with quota_service(tmp_path / "q0.sock", metadata, log) as registry, gateway(metadata) as (leased, _):
        now_ms = SystemClock().monotonic_ms()
        leased.meter("u", "app", now_ms, broker_id=0).charge(QuotaKind.PRODUCE, 1, now_ms)
        async with asyncio.timeout(HUNG_S):
            await leased.leased.wait()
        assert [line.partition(":")[0] for line in log.lines] == ["quota.scope differs"]
        assert "tailrace_quota_scope_differs 1.0" in generate_latest(registry).decode()


async def test_leases_are_renewed_while_the_client_is_active(tmp_path: Path) -> None:
    metadata = image({0: tmp_path / "q0.sock"})
    async with quota_service(tmp_path / "q0.sock", metadata), gateway(metadata) as (leased, _):
        meter = leased.meter("u", "app", SystemClock().monotonic_ms())
        await lease(leased)
        first = meter.buckets[QuotaKind.PRODUCE].expires_ms
        await lease(leased)
        assert meter.buckets[QuotaKind.PRODUCE].expires_ms > first


async def test_very_many_leases_are_asked_for_some_at_a_time(tmp_path: Path) -> None:
    metadata = replace(image({0: tmp_path / "q0.sock"}), quotas={(("client-id", None),): {"producer_byte_rate": RATE}})
    async with quota_service(tmp_path / "q0.sock", metadata), gateway(metadata) as (leased, client):
        now_ms = SystemClock().monotonic_ms()
        meters = [leased.meter("u", f"app-{number}", now_ms) for number in range(MANY)]
        for meter in meters:
            meter.charge(QuotaKind.PRODUCE, 1, now_ms)
        first_ms = [meter.buckets[QuotaKind.PRODUCE].expires_ms for meter in meters]
        async with asyncio.timeout(HUNG_S):
            while any(
                meter.buckets[QuotaKind.PRODUCE].expires_ms <= before_ms
                for meter, before_ms in zip(meters, first_ms, strict=True)
            ):
                leased.leased.clear()
                await leased.leased.wait()
        assert client.available
    assert leased.most_at_once <= MANY / 2


async def test_a_quota_service_that_comes_later_is_found(tmp_path: Path) -> None:
    metadata = image({0: tmp_path / "q0.sock"})
    async with gateway(metadata) as (leased, client):
        assert charge(leased) == RATE / 4
        async with quota_service(tmp_path / "q0.sock", metadata):
            assert await lease(leased) == RATE
            assert client.available  # and while the service stops it may be asked in vain


async def test_a_dead_quota_service_is_passed_over_for_the_next(tmp_path: Path) -> None:
    metadata = image({0: tmp_path / "dead.sock", 1: tmp_path / "q1.sock"})
    async with quota_service(tmp_path / "q1.sock", metadata), gateway(metadata) as (leased, _):
        assert await lease(leased) == RATE


async def test_a_service_that_is_silent_is_asked_last_for_a_while(tmp_path: Path) -> None:
    metadata = image({0: tmp_path / "q0.sock", 1: tmp_path / "q1.sock"})
    async with quota_service(tmp_path / "q1.sock", metadata), gateway(metadata) as (leased, client):
        assert [one.service_id for one in client.services()] == [0, 1]
        charge(leased)
        async with asyncio.timeout(HUNG_S):  # on a busy machine the other one, too, may once be silent for half a lease
            while [one.service_id for one in client.services()] != [1, 0]:
                leased.leased.clear()
                await lease(leased)


async def test_while_nobody_answers_the_gateway_says_so_once(tmp_path: Path) -> None:
    metadata, log = image({0: tmp_path / "q0.sock"}), a_log()
    async with gateway(metadata, log) as (leased, client):
        async with quota_service(tmp_path / "q0.sock", metadata):
            await lease(leased)
        async with asyncio.timeout(HUNG_S):
            while client.available:
                log.said.clear()
                await log.said.wait()
        assert charge(leased) == RATE
        async with quota_service(tmp_path / "q0.sock", metadata):
            await lease(leased)
            assert client.available
            # an answer that takes half a lease on a busy machine is one more change, told once as well
            assert log.lines == ["no quota leases", "quota leases again"] * (len(log.lines) // 2)


async def test_a_service_that_knows_no_quotas_yet_refuses(tmp_path: Path) -> None:
    path = tmp_path / "q0.sock"
    async with quota_service(path, MetadataImage()):
        client = Client(Address(str(path), -1), "test")
        answer = await client.ask(
            AcquireLeaseRequest(gateway_id=0, incarnation_id=uuid4(), entries=[]), timeout_ms=5000
        )
        await client.close()
    assert answer.error_code != 0


async def test_a_kind_nobody_knows_is_an_invalid_request(tmp_path: Path) -> None:
    path = tmp_path / "q0.sock"
    async with quota_service(path, image({})):
        client = Client(Address(str(path), -1), "test")
        entry = AcquireLeaseRequest.LeaseDemand(client_id="app", kind=9, rate=1.0)
        request = AcquireLeaseRequest(gateway_id=0, incarnation_id=uuid4(), entries=[entry])
        answer = await client.ask(request, timeout_ms=60_000)
        await client.close()
    assert answer.error_code == 42

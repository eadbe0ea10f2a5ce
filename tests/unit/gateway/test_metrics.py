"""The gateway's page of metrics, and what an operator asks by REST, while clients keep its codec thread busy."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from support.gateway import BOOT_ID, ScriptedFollower
from support.sasl import authenticator
from support.sessions import session_of
from support.waiting import HUNG_S
from tailrace.metadata.image import MetadataImage
from tailrace.net.quotas.meter import Unmetered
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace.runtime.clock import SystemClock
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.gateway import Advertised, GatewayLimits, Parts
from tailrace_gateway.metrics import MOST_SOFTWARE, GatewayMetrics
from tailrace_gateway.rest.admin import GatewayAdmin


@pytest.fixture
async def busy() -> AsyncIterator[AnsweringGateway]:
    """A gateway whose codec thread has work without an end."""
    parts = Parts(
        follower=ScriptedFollower(MetadataImage(offset=0, epoch=1, cluster_id="c")),
        clock=SystemClock(),
        sasl=authenticator(SystemClock()),
        random=random.Random(1),
        log=structlog.get_logger(),
        meter_of=lambda broker_id, client_id, user="": Unmetered(),
        limits=GatewayLimits(),
        advertised=Advertised(),
        boot_id=BOOT_ID,
    )
    gateway, ended = AnsweringGateway(parts), threading.Event()
    work = gateway.large.begin(ended.wait)
    yield gateway
    ended.set()
    await asyncio.wrap_future(work)


async def test_metrics_do_not_wait_behind_what_clients_ask_for(busy: AnsweringGateway) -> None:
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry, busy, 1, ThrottledConnections(lambda *given: 0, SystemClock()))
    async with asyncio.timeout(HUNG_S):
        await metrics.prepare()
    assert registry.get_sample_value("tailrace_global_partitions") == 0


async def test_the_rest_api_does_not_wait_behind_what_clients_ask_for(busy: AnsweringGateway) -> None:
    admin = GatewayAdmin(busy, lambda: ("h", 0))
    async with asyncio.timeout(HUNG_S):
        assert (await admin.state()).partitions == 0


class Named:
    """A connection of a client that says what it is."""

    def __init__(self, name: str, version: str) -> None:
        self.session = session_of()
        self.session.name_software(name, version)
        self.received_bytes = self.sent_bytes = 0
        self.handed_over = False


async def test_connections_are_counted_by_what_clients_call_themselves_within_bounds(busy: AnsweringGateway) -> None:
    registry = CollectorRegistry()
    GatewayMetrics(registry, busy, 1, ThrottledConnections(lambda *given: 0, SystemClock()))
    links: Any = busy.connections
    links |= {Named("librdkafka", "2.16.0"), Named("librdkafka", "2.16.0"), Named("", "")}
    name = "tailrace_client_software_connections"
    assert registry.get_sample_value(name, {"name": "librdkafka", "version": "2.16.0"}) == 2
    assert registry.get_sample_value(name, {"name": "", "version": ""}) == 1
    links |= {Named(f"n{number}", "1") for number in range(MOST_SOFTWARE)}
    assert registry.get_sample_value(name, {"name": "others", "version": "others"}) == 2
    assert registry.get_sample_value(name, {"name": "librdkafka", "version": "2.16.0"}) == 2

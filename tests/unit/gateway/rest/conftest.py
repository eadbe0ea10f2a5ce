"""The REST API in this process, over a cluster in memory."""

import random
from collections.abc import AsyncIterator

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend(brokers=2)


@pytest.fixture
async def http(backend: MemoryBackend) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(backend, ManualClock(), random.Random(1), HostRules(["here"])))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        yield client

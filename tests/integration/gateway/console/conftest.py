"""A browser for each file of this folder, and the console over a cluster in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.browser import WIDE, MemoryGateway, Window, open_browser
from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.metadata.image import PartitionImage


@pytest.fixture(scope="module")  # Playwright has the thread's event loop while it is open: other files are asynchronous
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def backend() -> MemoryBackend:
    """Two live brokers, two partitions with two replicas each, a group."""
    cluster = MemoryBackend(brokers=2)
    cluster.with_broken_disk = set()
    for node in (0, 1):
        cluster.space[node] = (10**12, 4 * 10**11)
    cluster.set_partitions("orders", PartitionImage((0, 1), (0, 1), 0, 0, 0), PartitionImage((1, 0), (0, 1), 1, 0, 0))
    cluster.groups["billing"] = MemoryGroup("Stable", [], {("orders", 0): 0})
    return cluster


@pytest.fixture
def gateway(backend: MemoryBackend) -> Iterator[MemoryGateway]:
    serving = MemoryGateway(backend)
    yield serving
    serving.stop()


@pytest.fixture
def window(browser: Any, gateway: MemoryGateway) -> Iterator[Window]:
    """A wide window; at its end nothing may have been wrong in it."""
    opened = Window(browser, gateway.address, WIDE)
    yield opened
    opened.close()
    assert opened.complaints == []


@pytest.fixture
def open_window(browser: Any, gateway: MemoryGateway) -> Iterator[Callable[..., Window]]:
    opened: list[Window] = []

    def build(viewport: dict[str, int], scheme: str) -> Window:
        opened.append(Window(browser, gateway.address, viewport, scheme))
        return opened[-1]

    yield build
    for one in opened:
        one.close()
        assert one.complaints == []

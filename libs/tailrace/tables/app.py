"""Opens the worker of tables: connections, workers, health and metrics; closed in reverse."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from structlog.typing import FilteringBoundLogger

from tailrace.net.address import Address
from tailrace.net.client import PLAINTEXT, ClientSettings
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.http import Pages, serve_pages
from tailrace.runtime.role_instance import Reporter
from tailrace.tables.cluster import BootstrapNodes
from tailrace.tables.fields.field import Decode
from tailrace.tables.location import RegistryAddress
from tailrace.tables.metrics import TableMetrics
from tailrace.tables.service import TableService
from tailrace.tables.worker import TableTopic

T = TypeVar("T")


class TableOptions(NamedTuple):
    """What a worker is told; location: as parse_location gives it; topics: empty for all that ask."""

    bootstrap: Sequence[Address]
    location: str
    topics: frozenset[str] = frozenset()
    settings: ClientSettings = PLAINTEXT
    pages: Address = Address("127.0.0.1", 0)
    registry: RegistryAddress | None = None


async def serve_tables(
    options: TableOptions, log: FilteringBoundLogger, reporter: Reporter, stop: asyncio.Event
) -> None:
    """Until stop is set. The worker is ready when it is open: a cluster that is away is waited for."""
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    async with _open(options, log, TableMetrics(registry)) as service:
        pages = Pages(registry, lambda: True, lambda: {"opened": True})
        server = await serve_pages(pages, options.pages.host, options.pages.port, SystemClock())
        try:
            host, port = server.sockets[0].getsockname()[:2]
            reporter.opened({"http": str(Address(host, port))})
            reporter.ready()
            await service.run(stop)
        finally:
            server.close()


async def fill_tables(options: TableOptions, log: FilteringBoundLogger) -> list[str]:
    """Up to the ends of the topics as they are now; the names of the topics. Raises what TableService.run_once does."""
    from prometheus_client import CollectorRegistry

    async with _open(options, log, TableMetrics(CollectorRegistry())) as service:
        return await service.run_once()


@asynccontextmanager
async def _open(options: TableOptions, log: FilteringBoundLogger, metrics: TableMetrics) -> AsyncIterator[TableService]:
    from tailrace.tables.delta import DeltaStore
    from tailrace.tables.fields.decoders import Decoders
    from tailrace.tables.fields.registry import HttpRegistry, RegisteredSchemas

    registered = RegisteredSchemas(HttpRegistry(*options.registry)) if options.registry else None
    clock = SystemClock()
    decoders = Decoders(clock.monotonic_ms, registered)

    def store_of(topic: TableTopic) -> DeltaStore:
        return DeltaStore(options.location, topic.name, topic.topic_id)

    def decode_of(topic: TableTopic) -> Decode:
        return decoders.of(topic.value_format, topic.value_schema)

    nodes = BootstrapNodes(options.bootstrap, options.settings)
    try:
        yield TableService(nodes, store_of, decode_of, clock, random.Random(), log, metrics, in_thread, options.topics)
    finally:
        await nodes.close()


def in_thread(call: Callable[[], T]) -> Awaitable[T]:
    """Runs what blocks beside the event loop."""
    return asyncio.to_thread(call)

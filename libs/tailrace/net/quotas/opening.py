"""The quotas of a process that holds clients' sockets: its meters, and what keeps their leases filled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID

from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.net.background import in_background
from tailrace.net.members.environment import ServiceEnvironment
from tailrace.net.members.lease_client import LeaseClient
from tailrace.net.quotas.meters import QUOTA_WINDOW_MS, Quotas
from tailrace.quota.leased_bucket import Terms


class QuotaEnvironment(ServiceEnvironment, Protocol):
    """What quotas take of the runtime's Environment."""

    @property
    def boot_id(self) -> str: ...


class ImageSource(Protocol):
    """What is asked of the metadata follower."""

    @property
    def image(self) -> MetadataImage: ...

    def subscribe(self, callback: Callable[[MetadataImage, MetadataImage], None], /) -> None: ...


@asynccontextmanager
async def open_quotas(
    config: Config, environment: QuotaEnvironment, follower: ImageSource, holder_id: int, work_ms: Callable[[], float]
) -> AsyncIterator[Quotas]:
    """Yields meters that follow the image; their leases are renewed while this is open.

    holder_id: as LeaseClient has it. work_ms: the processor's time for this thread.
    """
    terms = Terms(config.quota_lease_ms, config.quota_unavailable, config.quota_max_throttle_ms, QUOTA_WINDOW_MS)
    per_broker = config.quota_scope == "broker"
    quotas = Quotas(terms, config.quota_max_entries, environment.clock, work_ms, per_broker=per_broker)
    follower.subscribe(quotas.image_changed)
    quotas.image_changed(MetadataImage(), follower.image)
    leases = LeaseClient(
        quotas.leased,
        lambda: follower.image,
        holder_id,
        UUID(int=environment.random.getrandbits(128), version=4),
        clock=environment.clock,
        random=environment.random,
        log=environment.log,
        boot_id=environment.boot_id,
        secret=environment.secret,
    )
    async with in_background(leases.run()):
        yield quotas

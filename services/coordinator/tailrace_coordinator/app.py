"""Opens a coordinator: metadata, listener, registration; closed in reverse. Builds every object of the role."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from tailrace.clock import Cancellable, Clock
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.net.background import beside
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import Service
from tailrace.net.endpoints import endpoint_of
from tailrace.net.internal import internal_address
from tailrace.net.metadata_follower import MetadataFollower, open_metadata_follower
from tailrace.net.registration import Registration
from tailrace.net.request_memory import RequestMemory
from tailrace.net.request_memory_metrics import RequestMemoryMetrics
from tailrace.net.server import Server, serve
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import INTERNAL_APIS
from tailrace_coordinator.coordinator import ROLE, Coordinator
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.handlers import HANDLERS
from tailrace_coordinator.metrics import CoordinatorMetrics
from tailrace_coordinator.reports.committed_offsets import BrokerClients, CommittedOffsets
from tailrace_coordinator.reports.reports import Reports
from tailrace_coordinator.shards.deadlines import Every
from tailrace_coordinator.shards.partition_log import Leaders

_LEAVE_TIMEOUT_MS = 500
_SERVE_CACHED_MS = 3000
_LOAD_WAIT_MS = 1000.0  # who asks for a group whose shard is being loaded waits, and need not ask again
_CATCH_UP_MS = 1000.0
_REPORT_TIMEOUT_MS = 5000.0


class OpenCoordinator:
    """A coordinator that runs; ready once it is registered and its image shows it, even with no shard."""

    def __init__(self, coordinator: Coordinator, follower: MetadataFollower, addresses: dict[str, str]) -> None:
        self.coordinator = coordinator
        self.follower = follower
        self.addresses = addresses
        self.ready = asyncio.Event()

    def health(self) -> dict[str, bool]:
        """A stale image is no illness: groups go on without controllers."""
        return {"metadata": self.follower.image.offset >= 0}


@asynccontextmanager
async def open_coordinator(config: Config, environment: Environment) -> AsyncIterator[OpenCoordinator]:
    """Yields once the listener is bound; `ready` follows when a controller has taken the registration in."""
    clock, log = environment.clock, environment.log
    metrics = CoordinatorMetrics(environment.registry)
    leaders = Leaders(config.node_id, config.offsets_commit_timeout_ms)
    async with (
        open_metadata_follower(config, environment, f"{ROLE}-{config.node_id}") as follower,
        contextlib.AsyncExitStack() as stack,
    ):
        coordinator = Coordinator(
            config.node_id,
            group_config(config),
            clock=clock,
            random=environment.random,
            log=log,
            boot_id=environment.boot_id,
            metrics=metrics,
            logs=leaders.log,
            load_wait_ms=_LOAD_WAIT_MS,
            catch_up=partial(follower.catch_up, _CATCH_UP_MS),
        )
        metrics.machines = coordinator.machines
        memory = RequestMemory(config.queued_max_request_bytes)
        RequestMemoryMetrics(environment.registry, memory)
        service = Service(
            coordinator, HANDLERS, INTERNAL_APIS, log, max_frame_bytes=config.socket_request_max_bytes, memory=memory
        )
        server = await serve([internal_address(config, environment.run_dir, f"{ROLE}-{config.node_id}")], service)
        stack.push_async_callback(server.close)
        opened = OpenCoordinator(coordinator, follower, {"internal": str(server.addresses[0])})
        offsets = CommittedOffsets(
            coordinator.machines, lambda: coordinator.image, BrokerClients(), clock, environment.boot_id, log
        )
        registration = _registration(config, environment, follower, server)
        reports = Reports(
            clock,
            coordinator.machines,
            lambda: offsets.rows,
            lambda request: follower.ask_controller(request, _REPORT_TIMEOUT_MS),
            lambda: (config.node_id, registration.service_epoch),
            log,
        )
        stack.callback(follow(opened, registration, clock).cancel)
        stack.push_async_callback(leaders.close)
        stack.push_async_callback(coordinator.close)
        await stack.enter_async_context(beside(offsets.run()))
        await stack.enter_async_context(beside(reports.run()))
        expiry = Every(clock, config.offsets_retention_check_interval_ms, coordinator.expire_offsets)
        stack.callback(expiry.cancel)
        registering = asyncio.get_running_loop().create_task(registration.run())
        try:
            yield opened
        finally:
            registering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await registering
            await registration.leave(_LEAVE_TIMEOUT_MS)


def group_config(config: Config) -> GroupConfig:
    """Returns what the group machine needs of the configuration."""
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        max_record_bytes=max(1_024, min(1_000_000, config.message_max_bytes - 1_024)),  # a batch must fit the topic
    )


def follow(opened: OpenCoordinator, registration: Registration, clock: Clock) -> Cancellable:
    """Keeps shards in step with the image, from the moment it shows this life registered.

    With all controllers away that may take for ever: then the cached image of an earlier life is served. What that life
    may still have under way is found by the offsets of the next append.
    """
    coordinator, follower = opened.coordinator, opened.follower
    serving = False

    def on_image(old: MetadataImage, new: MetadataImage) -> None:
        nonlocal serving
        service = new.services.get((ROLE, coordinator.coordinator_id))
        if service is not None and service.incarnation_id == coordinator.incarnation_id:
            serving = True
            opened.ready.set()
        if serving:
            coordinator.on_image(old, new)

    def on_registered() -> None:
        coordinator.incarnation_id = registration.incarnation_id
        on_image(follower.image, follower.image)

    def serve_cached() -> None:
        nonlocal serving
        serving = True
        on_image(follower.image, follower.image)

    registration.on_registered = on_registered
    follower.subscribe(on_image)
    return clock.call_later(_SERVE_CACHED_MS, serve_cached)


def _registration(config: Config, environment: Environment, follower: MetadataFollower, server: Server) -> Registration:
    return Registration(
        follower,
        environment.clock,
        Backoff(environment.clock, environment.random),
        environment.log,
        role=ROLE,
        service_id=config.node_id,
        incarnation_id=UUID(int=environment.random.getrandbits(128), version=4),
        endpoints=[endpoint_of(address, environment.boot_id) for address in server.addresses],
        interval_ms=config.broker_heartbeat_interval_ms,
    )


role = Role(ROLE, open_coordinator)

"""Opens a coordinator: metadata, listener, registration; closed in reverse. Builds every object of the role."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from uuid import UUID

from tailrace.access.authorizer import Authorizer
from tailrace.config import Config
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.net.authentication.metrics import with_logins
from tailrace.net.authorization.opening import open_authorizer
from tailrace.net.background import in_background
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import Service, topic_names
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics
from tailrace.net.members.internal import advertised_endpoints, internal_address
from tailrace.net.members.registration import ServiceRegistration
from tailrace.net.members.reports import Reports, Source
from tailrace.net.metadata.follower import MetadataFollower, open_metadata_follower
from tailrace.net.server import Server, serve
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import INTERNAL_APIS
from tailrace_coordinator.coordinator import ROLE, Coordinator
from tailrace_coordinator.group_actions import GroupActions
from tailrace_coordinator.handlers import HANDLERS
from tailrace_coordinator.kinds import KINDS
from tailrace_coordinator.membership import Membership
from tailrace_coordinator.metrics import CoordinatorMetrics
from tailrace_coordinator.reports.committed_offsets import KEY, BrokerClients, CommittedOffsets, row_of
from tailrace_coordinator.reports.lag_metrics import LagMetrics
from tailrace_coordinator.reports.reports import sources_of
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.partition_log import LeaderConnections
from tailrace_coordinator.shards.runtime import Act, CoordinatorRuntime, RuntimeContext
from tailrace_coordinator.transactions.markers import MarkerSender
from tailrace_coordinator.transactions.peers import Peers

_LEAVE_TIMEOUT_MS = 500
_LOAD_WAIT_MS = 1000.0  # who asks for a group whose shard is being loaded waits, and need not ask again
_CATCH_UP_MS = 1000.0
_REPORT_TIMEOUT_MS = 5000.0


class OpenCoordinator:
    """A coordinator that runs; ready once it is registered and its image shows it, even with no shard."""

    def __init__(
        self, coordinator: Coordinator, follower: MetadataFollower, addresses: dict[str, str], ready: asyncio.Event
    ) -> None:
        self.coordinator = coordinator
        self.follower = follower
        self.addresses = addresses
        self.ready = ready

    def health(self) -> dict[str, bool]:
        """A stale image is no illness: groups go on without controllers."""
        return {"metadata": self.follower.image.offset >= 0}


@asynccontextmanager
async def open_coordinator(config: Config, environment: Environment) -> AsyncIterator[OpenCoordinator]:
    """Yields once the listener is bound; `ready` follows when a controller has taken the registration in."""
    async with (
        open_metadata_follower(config, environment, f"{ROLE}-{config.node_id}") as follower,
        contextlib.AsyncExitStack() as stack,
    ):
        leaders = LeaderConnections(config.node_id, config.offsets_commit_timeout_ms, environment.secret)
        stack.push_async_callback(leaders.close)
        deadlines = Deadlines(environment.clock)
        stack.callback(deadlines.close)
        peers = Peers(lambda: follower.image, environment.boot_id, environment.secret)
        stack.push_async_callback(peers.close)
        markers = MarkerSender(
            peers,
            lambda: follower.image,
            environment.clock,
            lambda owned, ended: coordinator.transactions.ask_partition(
                owned.partition, lambda machine, now_ms, token: machine.complete(now_ms, token, ended)
            ),
            partial(follower.catch_up, _CATCH_UP_MS),
        )
        actions = GroupActions(
            lambda: coordinator.groups, partial(Backoff, environment.clock, environment.random), environment.log
        )
        stack.push_async_callback(actions.close)
        runtime_context = _runtime_context(config, environment, deadlines, leaders)
        acts: dict[str, Act] = {GROUP_METADATA_TOPIC: actions.act, TRANSACTION_STATE_TOPIC: markers.act}
        coordinator = Coordinator(
            config.node_id,
            {
                topic: CoordinatorRuntime(topic, kind, replace(runtime_context, act=acts[topic]))
                for topic, kind in KINDS.items()
            },
            random=environment.random,
            catch_up=partial(follower.catch_up, _CATCH_UP_MS),
            peers=peers,
            markers=markers,
            offsets_topic_partitions=config.offsets_topic_num_partitions,
            earlier_transaction_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
            rebalance_protocols=config.group_coordinator_rebalance_protocols,
        )
        CoordinatorMetrics(environment.registry, coordinator)
        authorizer = environment.authorizer or open_authorizer(config, follower, environment)
        server = await _serve(config, environment, coordinator, authorizer)
        stack.push_async_callback(server.close)
        membership = Membership(
            coordinator, follower, environment.clock, UUID(int=environment.random.getrandbits(128), version=4)
        )
        stack.callback(membership.close)
        registration = _registration(config, environment, follower, server, membership)
        stack.push_async_callback(coordinator.close)
        await stack.enter_async_context(_reporting(config, environment, follower, coordinator, registration))
        await stack.enter_async_context(_registered(registration))
        yield OpenCoordinator(coordinator, follower, {"internal": str(server.addresses[0])}, membership.ready)


def _runtime_context(
    config: Config,
    environment: Environment,
    deadlines: Deadlines,
    leaders: LeaderConnections,
) -> RuntimeContext:
    return RuntimeContext(
        coordinator_id=config.node_id,
        config=config,
        clock=environment.clock,
        random=environment.random,
        log=environment.log,
        boot_id=environment.boot_id,
        deadlines=deadlines,
        logs=leaders.log,
        load_wait_ms=_LOAD_WAIT_MS,
    )


async def _serve(
    config: Config, environment: Environment, coordinator: Coordinator, authorizer: Authorizer | None
) -> Server:
    memory = RoleMemory(RequestMemory(config.queued_max_request_bytes))
    RoleMemoryMetrics(environment.registry, memory)
    service = Service(
        coordinator,
        HANDLERS,
        INTERNAL_APIS,
        environment.log,
        max_frame_bytes=config.socket_request_max_bytes,
        memory=memory,
        large=coordinator.large,
        authorizer=authorizer,
        topic_name=topic_names(lambda: coordinator.image),
    )
    service = with_logins(service, environment.secret, environment.clock, environment.registry)
    address = internal_address(config, environment.run_dir, f"{ROLE}-{config.node_id}", environment.secret)
    return await serve([address], service)


def _registration(
    config: Config, environment: Environment, follower: MetadataFollower, server: Server, membership: Membership
) -> ServiceRegistration:
    return ServiceRegistration(
        follower,
        environment.clock,
        Backoff(environment.clock, environment.random),
        environment.log,
        role=ROLE,
        service_id=config.node_id,
        incarnation_id=membership.incarnation_id,
        endpoints=advertised_endpoints(config, server.addresses, environment.boot_id),
        interval_ms=config.broker_heartbeat_interval_ms,
        on_registered=membership.on_registered,
    )


@asynccontextmanager
async def _reporting(
    config: Config,
    environment: Environment,
    follower: MetadataFollower,
    coordinator: Coordinator,
    registration: ServiceRegistration,
) -> AsyncIterator[None]:
    """While open the controller is told what the shards hold."""
    offsets = CommittedOffsets(
        coordinator.groups.machines,
        lambda: coordinator.image,
        BrokerClients(environment.secret),
        environment.clock,
        environment.boot_id,
    )
    LagMetrics(environment.registry, lambda: offsets.rows, environment.clock.wall_ms)
    sources = [source for runtime in coordinator.runtimes.values() for source in sources_of(runtime)]
    reports = Reports(
        environment.clock,
        [
            *sources,
            Source("group_offsets", lambda: offsets.rows, row_of, KEY, refresh=offsets.refresh, moved=offsets.moved),
        ],
        lambda request: follower.ask_controller(request, _REPORT_TIMEOUT_MS),
        lambda: (config.node_id, registration.service_epoch),
        environment.log,
    )
    try:
        async with in_background(reports.run()):
            yield
    finally:
        await offsets.close()


@asynccontextmanager
async def _registered(registration: ServiceRegistration) -> AsyncIterator[None]:
    """A member of the cluster while open; says goodbye at the end."""
    registering = asyncio.get_running_loop().create_task(registration.run())
    try:
        yield
    finally:
        registering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await registering
        await registration.leave(_LEAVE_TIMEOUT_MS)


role = Role(ROLE, open_coordinator)

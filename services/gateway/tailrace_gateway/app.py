"""Opens a gateway: metadata, node ports, the brokers' socket, registration, then the REST API; closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from tailrace.config import Config
from tailrace.log.directory.disk_pressure import marks
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.authorization.opening import open_authorizer
from tailrace.net.background import in_background
from tailrace.net.backoff import Backoff
from tailrace.net.limits.connections_per_ip import connections_per_ip
from tailrace.net.limits.deadline_check import DeadlineCheck
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics
from tailrace.net.listeners.listener import ClientListener, listeners_of, mechanisms_of, without_listener
from tailrace.net.members.endpoints import endpoints_of
from tailrace.net.members.registration import ServiceRegistration
from tailrace.net.metadata.follower import MetadataFollower, open_metadata_follower
from tailrace.net.quotas.opening import open_quotas
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace.net.sasl.opening import open_sasl
from tailrace.net.tls.handshakes import open_handshakes
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.private_files import private_folder
from tailrace.processor_time import thread_time_ms
from tailrace.runtime.role import Environment, Role
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.gateway import Advertised, GatewayLimits, Parts
from tailrace_gateway.listener import GatewayListener, InternalListener
from tailrace_gateway.metrics import GatewayMetrics
from tailrace_gateway.rest.access.opening import open_access
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.admin import GatewayAdmin
from tailrace_gateway.rest.cross_origin import CrossOrigin
from tailrace_gateway.scrape_targets import targets_of
from tailrace_gateway.versions import ServedVersions

# With a second for REST requests under way, a stop takes two at most, whoever is away.
_LEAVE_MS = 500.0
_DRAIN_MS = 400.0


class OpenGateway:
    """A gateway that runs; ready once it has an image with one broker that is not fenced."""

    def __init__(
        self,
        gateway: AnsweringGateway,
        follower: MetadataFollower,
        addresses: dict[str, str],
        before_metrics: Callable[[], Awaitable[None]],
        ask_for: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.gateway = gateway
        self.before_metrics = before_metrics
        self.follower = follower
        self.addresses = addresses
        self.ready = asyncio.Event()
        self._ask_for = ask_for
        self._asked = False
        follower.subscribe(self._image_changed)
        self._image_changed(follower.image, follower.image)

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if self.gateway.has_live_broker(new):
            self.ready.set()
        if not self._asked and (new is old or new.configs is not old.configs) and _asks_for_tables(new):
            self._asked = True
            self._ask_for("table")

    def health(self) -> dict[str, bool]:
        """A stale image is no failure: the data plane goes on."""
        return {"image": bool(self.follower.image.cluster_id)}


def _asks_for_tables(image: MetadataImage) -> bool:
    return any(overrides.get("tailrace.table", "none") != "none" for overrides in image.configs.values())


def limits_of(config: Config) -> GatewayLimits:
    """The bounds that have a config."""
    return GatewayLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        request_memory_bytes=config.queued_max_request_bytes,
        max_connections=config.max_connections,
        buffers=SocketBuffers(config.socket_receive_buffer_bytes, config.socket_send_buffer_bytes),
        idle_ms=config.connections_max_idle_ms,
    )


def advertised_of(config: Config) -> Advertised:
    """What clients are told."""
    return Advertised(
        brokers=config.gateway_advertise == "brokers",
        auto_create_topics=config.auto_create_topics_enable,
    )


@asynccontextmanager
async def open_gateway(config: Config, environment: Environment) -> AsyncIterator[OpenGateway]:
    """Yields once the node ports are bound."""
    clock, listeners = environment.clock, listeners_of(config)
    if stray := without_listener(config):
        environment.log.warning("configs of no listener", without_effect=", ".join(stray))
    async with AsyncExitStack() as stack:
        name = f"gateway-{config.node_id}"
        follower = await stack.enter_async_context(open_metadata_follower(config, environment, name))
        quotas = await stack.enter_async_context(
            open_quotas(config, environment, follower, config.node_id, thread_time_ms)
        )
        sasl = stack.enter_context(open_sasl(config, environment, lambda: follower.image, mechanisms_of(listeners)))
        parts = Parts(
            follower=follower,
            clock=clock,
            random=environment.random,
            log=environment.log,
            meter_of=quotas.meter_of,
            sasl=sasl,
            limits=limits_of(config),
            advertised=advertised_of(config),
            boot_id=environment.boot_id,
            secret=environment.secret,
            authorizer=environment.authorizer or open_authorizer(config, follower, environment),
        )
        gateway = AnsweringGateway(parts, handover=config.gateway_handover)
        stack.push_async_callback(close_connections, gateway)
        throttled = ThrottledConnections(quotas.admit, clock, connections_per_ip(config))
        stack.callback(throttled.close)
        opened_listeners = [open_listener(gateway, one, throttled, stack) for one in listeners]
        for one in opened_listeners:
            one.beside = opened_listeners
        first = opened_listeners[0]
        versions = ServedVersions(gateway)
        watchers = (*(one.image_changed for one in opened_listeners), gateway.image_changed, versions.image_changed)
        for changed in watchers:
            follower.subscribe(changed)
            changed(MetadataImage(), follower.image)
        follower.on_move(gateway.controller_moved)
        deadline_check = DeadlineCheck(gateway.connections, gateway.limits.deadlines)
        stack.callback(deadline_check.close)
        deadline_check.start()
        gateway.request_metrics.register(environment.registry)
        metrics = GatewayMetrics(environment.registry, gateway, config.min_insync_replicas, throttled)
        RoleMemoryMetrics(environment.registry, gateway.memory)
        addresses = {"client": addresses_of(opened_listeners)}
        endpoints = [Endpoint("CLIENT", first.hosts[0], first.base_port)]
        if environment.run_dir is not None:
            internal = serve_brokers(gateway, config.node_id, environment.run_dir)
            stack.callback(internal.close)
            endpoints += endpoints_of(Address(internal.path, -1), environment.boot_id)
            addresses["internal"] = f"unix:{internal.path}"
        await stack.enter_async_context(registered(config, environment, follower, endpoints))
        slow, refuse = config.log_dir_pressure_slow_bytes, config.log_dir_pressure_refuse_bytes
        admin = GatewayAdmin(
            gateway,
            first.told_here,
            config.min_insync_replicas,
            lambda total_bytes: marks(total_bytes, slow, refuse),
            list if environment.run_dir is None else partial(targets_of, environment.run_dir),
        )
        stack.push_async_callback(admin.close)
        access = open_access(config, gateway, environment)
        rest = Rest(admin, config, environment, access, listeners)
        opened = OpenGateway(gateway, follower, addresses, metrics.prepare, environment.ask_for)
        if config.admin_port:
            addresses["admin"] = rest.url(str(Address(first.hosts[0], config.admin_port)))
            await stack.enter_async_context(in_background(rest.run_after(opened.ready)))
        else:
            addresses["admin"] = rest.url(await rest.open(stack))
        yield opened


def open_listener(
    gateway: AnsweringGateway, listener: ClientListener, throttled: ThrottledConnections, stack: AsyncExitStack
) -> GatewayListener:
    """One listener with the port of node 0; closed with the stack."""
    handshakes = open_handshakes(listener.tls, listener.principal_rules, gateway.clock, gateway.log)
    opened = GatewayListener(gateway, listener, throttled, handshakes)
    stack.callback(opened.close)
    opened.open_node(0)
    return opened


def addresses_of(listeners: Sequence[GatewayListener]) -> str:
    """What the run file says: addresses, or, of several listeners, Kafka's NAME://host:port."""
    if len(listeners) == 1:
        return ",".join(listeners[0].addresses)
    return ",".join(f"{one.listener.name}://{address}" for one in listeners for address in one.addresses)


def serve_brokers(gateway: AnsweringGateway, node_id: int, run_dir: Path) -> InternalListener:
    """The Unix socket for what brokers relay."""
    private_folder(run_dir)
    return InternalListener(gateway, str(run_dir / f"gateway-{node_id}.sock"))


class Rest:
    """The REST API, imported late: FastAPI costs more than the rest of the gateway's start."""

    def __init__(
        self,
        admin: GatewayAdmin,
        config: Config,
        environment: Environment,
        access: RestAccess,
        listeners: Sequence[ClientListener],
    ) -> None:
        self._listeners = listeners
        self._access = access
        self._admin = admin
        self._config = config
        self._environment = environment

    def url(self, address: str) -> str:
        """What the run file says of the port: a URL where it speaks TLS."""
        return address if self._access.handshakes is None else f"https://{address}"

    async def open(self, stack: AsyncExitStack) -> str:
        """Binds the admin port and returns its address; raises OSError when it is taken."""
        server = await asyncio.to_thread(importlib.import_module, "tailrace_gateway.rest.server")
        hosts, port = self._listeners[0].hosts, self._config.admin_port
        opened = server.open_rest(
            hosts,
            port,
            self._admin,
            self._environment.clock,
            self._environment.random,
            own_names=own_names(self._listeners),
            allowed_hosts=self._config.admin_allowed_hosts,
            cross_origin=CrossOrigin(
                self._config.access_control_allow_origin, self._config.access_control_allow_methods
            ),
            access=self._access,
        )
        address: str = await stack.enter_async_context(opened)
        return address

    async def run_after(self, ready: asyncio.Event) -> None:
        """Serves from when the data side is ready until cancelled."""
        await ready.wait()
        async with AsyncExitStack() as stack:
            try:
                await self.open(stack)
            except OSError as taken:
                self._environment.log.error("no REST API", port=self._config.admin_port, why=str(taken))
                return
            await asyncio.get_running_loop().create_future()


def own_names(listeners: Sequence[ClientListener]) -> list[str]:
    """The names that this machine and its gateway are known by, besides addresses and localhost."""
    hosts = [host for one in listeners for host in one.hosts]
    advertised = [one.advertised_host for one in listeners if one.advertised_host is not None]
    return [*hosts, socket.gethostname(), *advertised]


@asynccontextmanager
async def registered(
    config: Config, environment: Environment, follower: MetadataFollower, endpoints: list[Endpoint]
) -> AsyncIterator[None]:
    """A member of the cluster while open; says goodbye at the end."""
    registration = ServiceRegistration(
        follower,
        environment.clock,
        Backoff(environment.clock, environment.random),
        environment.log,
        role="gateway",
        service_id=config.node_id,
        incarnation_id=UUID(int=environment.random.getrandbits(128), version=4),
        endpoints=endpoints,
    )
    async with in_background(registration.run()):
        yield
    await registration.leave(_LEAVE_MS)


async def close_connections(gateway: AnsweringGateway) -> None:
    """Answers what was asked, for a moment, then ends every client connection and what still runs for them."""
    for connection in list(gateway.connections):
        connection.finish()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_MS / 1000):
            await gateway.all_closed()
    for connection in list(gateway.connections):
        connection.close()
    for task in list(gateway.background):
        task.cancel()


role = Role("gateway", open_gateway)

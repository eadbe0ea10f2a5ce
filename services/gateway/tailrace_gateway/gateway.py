"""The gateway role: what its connections and handlers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.net.address import Address
from tailrace.net.buffers import SocketBuffers
from tailrace.net.context import Context, Identity
from tailrace.net.dispatch import Handler, Service, answer_frame
from tailrace.net.endpoints import address_of
from tailrace.net.request_memory import DEFAULT_BYTES, RequestMemory
from tailrace.net.request_memory_watch import RequestMemoryWatch
from tailrace.wire import codec
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.messages import CreateTopicsRequest, PreambleRequest, PreambleResponse
from tailrace_gateway import absent, configs, forward, groups, unfenced
from tailrace_gateway.buffers import Pool
from tailrace_gateway.connection import ClientLink
from tailrace_gateway.handlers import HANDLERS, api_versions
from tailrace_gateway.handlers.metadata import Told
from tailrace_gateway.handover import Handover
from tailrace_gateway.meter import MeterOf
from tailrace_gateway.relay import API_KEYS, Frame
from tailrace_gateway.routes import Route, Versions, table
from tailrace_gateway.suspects import Suspects
from tailrace_gateway.upstream import NodeLink, connect, preamble

_NAMED_AFTER_DEATH_MS = 10_000.0
_CREATED_AT_ONCE = 100  # topics, whose partitions are counted together


class Follower(Protocol):
    """What the gateway needs of tailrace.net.metadata_follower."""

    @property
    def image(self) -> MetadataImage: ...

    async def wait_for(self, predicate: Callable[[MetadataImage], bool], timeout_ms: float) -> Any: ...

    async def ask_controller(self, message: Any, timeout_ms: float) -> Any: ...

    async def catch_up(self, timeout_ms: float) -> bool: ...

    @property
    def controller(self) -> Address | None: ...
    @property
    def controller_id(self) -> int: ...
    @property
    def controller_epoch(self) -> int: ...
    @property
    def stale(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one gateway; times in milliseconds."""

    max_frame_bytes: int = 104_857_600
    max_collected_bytes: int = 16_777_216  # of a request that is not relayed as it comes
    request_memory_bytes: int = DEFAULT_BYTES  # of all requests that are collected
    max_connections: int = 10_000
    buffers: SocketBuffers = field(default_factory=SocketBuffers)  # of a client's connection
    idle_ms: float = 600_000
    head_ms: float = 10_000  # a frame's first bytes to its routing
    dribble_ms: float = 30_000  # a frame in passage must bring dribble_bytes in this time
    dribble_bytes: int = 4096
    node_wait_ms: float = 2_000  # how long requests wait for a node that is away
    unfenced_wait_ms: float = 25_000  # how long requests wait while no broker is unfenced
    controller_wait_ms: float = 15_000
    catch_up_ms: float = 1_000  # how long a write's answer waits for this gateway's own image
    deposed_ms: float = 500  # for a controller that is not active any more to say so
    coordinator_wait_ms: float = 1_000
    connect_ms: float = 2_000


@dataclass(frozen=True, slots=True)
class Advertised:
    """What clients are told: the gateway's own node ports, or the brokers' CLIENT listeners."""

    brokers: bool = False
    host: str | None = None
    port: int | None = None
    auto_create_topics: bool = True


class Gateway:
    """Stateless but for its open connections; everything it knows of the cluster is in the follower's image."""

    def __init__(
        self,
        follower: Follower,
        clock: Clock,
        random: Random,
        log: Any,
        meter_of: MeterOf,
        limits: Limits,
        advertised: Advertised,
        boot_id: str,
        handlers: Mapping[int, Handler] = HANDLERS,
        *,
        handover: bool = False,
    ) -> None:
        self.follower = follower
        self.clock = clock
        self.random = random
        self.log = log
        self.meter_of = meter_of
        self.limits = limits
        self.advertised = advertised
        self.boot_id = boot_id
        self.pool = Pool()
        self.memory = RequestMemory(limits.request_memory_bytes)
        RequestMemoryWatch(self.memory)
        self.table = table()
        self.connections: set[ClientLink] = set()
        self.suspects = Suspects(self)
        self.told = Told()
        self.others_first: Callable[[], Awaitable[None]] = partial(
            clock.sleep, 0
        )  # whatever is ready to run has its turn
        self.handover = Handover(self, wanted=handover)
        self.fenced_at_ms: dict[int, float] = {}
        self.away_since_ms: dict[int, float] = {}
        self.creating: set[str] = set()
        self.background: set[asyncio.Task[None]] = set()
        self.closed_connections = 0
        self.requests = [0] * API_KEYS
        self.throttled_ms = 0
        self.relayed_bytes = [0, 0]  # from clients, to clients
        self._all_closed: asyncio.Event | None = None
        self._service = Service(self, handlers, APIS, log, internal=False, listener="CLIENT")

    @property
    def image(self) -> MetadataImage:
        return self.follower.image

    def serve_versions(self, served: Mapping[str, Versions]) -> None:
        """Clamps what is served to what the roles behind serve; connections already open keep what they were told."""
        self.table = table(served)

    # -- addresses ------------------------------------------------------------------------------------------------

    def endpoint_of(self, broker: BrokerImage, identity: Identity) -> tuple[str, int] | None:
        """The host and port this client is told for a broker; None if it has none for clients."""
        if not self.advertised.brokers:
            return identity.advertised_host, identity.base_port + broker.broker_id
        endpoint = broker.endpoint("CLIENT")
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def has_endpoint(self, broker: BrokerImage) -> bool:
        """Whether clients are told of an address for a broker."""
        return not self.advertised.brokers or broker.endpoint("CLIENT") is not None

    def has_live_broker(self, image: MetadataImage) -> bool:
        """Whether an image has a broker of which clients can be told."""
        return any(self.has_endpoint(broker) for broker in image.live_brokers())

    def nodes(self) -> Iterator[BrokerImage]:
        """The brokers that Metadata names: those that live and, while their ports here are open, those that just died.

        librdkafka 2.10 and later drops a node that is no longer named at once, races its own move of the partitions to
        their new leaders, and where it loses looks for them only a second later.
        """
        now_ms = self.clock.monotonic_ms()
        for _, broker in sorted(self.image.brokers.items()):
            fenced_at_ms = self.fenced_at_ms.get(broker.broker_id)
            just_now = fenced_at_ms is not None and now_ms - fenced_at_ms < _NAMED_AFTER_DEATH_MS
            if not broker.fenced or (just_now and not self.advertised.brokers):
                yield broker

    def controller_id(self, identity: Identity) -> int:
        """A live broker, since clients send what is the controller's to it: this connection's node if it lives."""
        live = [broker.broker_id for broker in self.image.live_brokers()]
        return identity.node_id if identity.node_id in live else live[0] if live else -1

    # -- topics created on need -----------------------------------------------------------------------------------

    def auto_create(self, names: Sequence[str]) -> None:
        """Asks the controller for topics that Metadata named (auto.create.topics.enable), once at a time for each."""
        if self.advertised.auto_create_topics:
            self._create(names)

    def create_group_metadata_topic(self) -> None:
        """Asks the controller for __consumer_offsets, whose partitions and replicas it knows."""
        self._create([GROUP_METADATA_TOPIC])

    def _create(self, names: Sequence[str]) -> None:
        wanted = [name for name in names if name not in self.creating]
        if wanted:
            self.creating.update(wanted)
            self.run_beside(self._ask_to_create(wanted))

    def run_beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs something beside the requests; ended with the gateway."""
        task = asyncio.get_running_loop().create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)
        return task

    async def _ask_to_create(self, names: list[str]) -> None:
        topic = CreateTopicsRequest.CreatableTopic
        try:
            for some in (names[at : at + _CREATED_AT_ONCE] for at in range(0, len(names), _CREATED_AT_ONCE)):
                request = CreateTopicsRequest(
                    topics=[topic(name=name, num_partitions=-1, replication_factor=-1) for name in some],
                    timeout_ms=int(self.limits.controller_wait_ms),
                )
                response = await self.follower.ask_controller(request, self.limits.controller_wait_ms)
                for result in response.topics:
                    if result.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                        code = ErrorCode(result.error_code)
                        self.log.warning("topic not created", topic=result.name, error=code.name)
        except (OSError, ApiError) as away:  # the client asks again
            self.log.warning("topic not created", topics=names, error=str(away))
        finally:
            self.creating.difference_update(names)

    # -- connections ----------------------------------------------------------------------------------------------

    def closed(self, connection: ClientLink) -> None:
        """A connection counts itself out."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.closed_connections += 1
            self.relayed_bytes[0] += connection.received_bytes
            self.relayed_bytes[1] += connection.sent_bytes
            if not self.connections and self._all_closed is not None:
                self._all_closed.set()

    async def all_closed(self) -> None:
        """Returns when no connection is left."""
        self._all_closed = asyncio.Event()
        if self.connections:
            await self._all_closed.wait()

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Ends what waits for a broker that was given up, or for a shard's owner that is none any more."""
        if old.brokers is not new.brokers:
            for node_id, broker in old.brokers.items():
                if gone(broker, new.brokers.get(node_id)):
                    self.fenced_at_ms[node_id] = self.clock.monotonic_ms()
            if self.has_live_broker(old) and not self.has_live_broker(new):
                self.log.warning("no broker is unfenced", why="clients wait for one")
            for connection in list(self.connections):
                if fenced_now(old.brokers.get(connection.node_id), new.brokers.get(connection.node_id)):
                    connection.node_lost(f"broker {connection.node_id} was fenced")
        if old.shards is not new.shards:
            for connection in list(self.connections):
                if connection.owner is not None:
                    groups.owner_changed(connection, new)

    def controller_moved(self, old: Address | None) -> None:
        """Ends what still waits for the controller before, after a moment in which one that lives refuses by itself."""
        if old is not None:
            self.clock.call_later(self.limits.deposed_ms, lambda: self._break_off(old))

    def _break_off(self, old: Address) -> None:
        if self.follower.controller == old:
            return
        for connection in list(self.connections):
            if (exchange := connection.exchanges.get(old)) is not None:
                exchange.break_off()

    async def open_node(self, connection: ClientLink) -> NodeLink | None:
        """One try to reach the connection's node; None when it is not there."""
        broker = self.image.brokers.get(connection.node_id)
        address = None if broker is None or broker.fenced else address_of(broker.endpoints, self.boot_id)
        if broker is None or address is None:
            self.away_since_ms.setdefault(connection.node_id, self.clock.monotonic_ms())
            return None
        try:
            sock = await connect(address, self.limits.connect_ms)
        except OSError:
            self.suspects.refused(connection.node_id)
            self.away_since_ms.setdefault(connection.node_id, self.clock.monotonic_ms())
            return None
        self.away_since_ms.pop(connection.node_id, None)
        node = NodeLink(sock, self.pool, connection)
        node.write(preamble(connection.identity))
        return node

    # -- requests that are not relayed ----------------------------------------------------------------------------

    async def answer(self, frame: Frame, connection: ClientLink) -> bytes | None:
        """The whole answer frame; None when the node has taken the request over after all or none is due."""
        if not await unfenced.broker_there(self, connection, frame):
            return None
        if frame.route == Route.HERE:
            return await self._here(frame, connection)
        if frame.key in configs.SPLIT:
            return await configs.answer(self, connection, frame)
        if frame.route == Route.CONTROLLER:
            return await forward.to_controller(self, connection, frame)
        if frame.route == Route.COORDINATOR:
            return await groups.to_coordinator(self, connection, frame)
        if frame.key == ApiKey.INIT_PRODUCER_ID and not connection.requests.node_refused:
            return absent.no_transactions(frame)
        return await absent.wait_for_node(self, connection, frame)

    async def _here(self, frame: Frame, connection: ClientLink) -> bytes:
        if frame.key == ApiKey.PREAMBLE:
            return self._introduced(frame, connection)
        if frame.key == ApiKey.API_VERSIONS and frame.version > APIS[frame.key].max_version:
            return codec.encode_response(api_versions.unsupported(), 0, frame.correlation_id)
        data = memoryview(frame.data)[4:]
        header = parse_request_header(data)
        request = await self._service.large.decode(frame.key, frame.version, data[header.body_offset :])
        context = Context(frame.key, frame.version, frame.correlation_id, header.client_id, connection)
        return await answer_frame(self._service, request, context)

    def _introduced(self, frame: Frame, connection: ClientLink) -> bytes:
        """The preamble of a broker that relays for its clients: from here on this connection is theirs."""
        request: PreambleRequest = forward.decoded(frame)  # type: ignore[assignment]
        identity = Identity(**{name: getattr(request, name) for name in Identity._fields})
        if identity.node_id < 0:
            identity = identity._replace(node_id=self._node_of(identity))
        connection.introduced(identity)
        return codec.encode_response(PreambleResponse(error_code=ErrorCode.NONE), 0, frame.correlation_id)

    def _node_of(self, identity: Identity) -> int:
        """The broker whose CLIENT listener has the port that the client came by."""
        for broker in self.image.brokers.values():
            endpoint = broker.endpoint("CLIENT")
            if endpoint is not None and endpoint.port == identity.base_port:
                return broker.broker_id
        return -1


def gone(old: BrokerImage, new: BrokerImage | None) -> bool:
    """Whether a broker lived and does not now, be it that its next life is registered already."""
    return not old.fenced and (new is None or new.fenced)


def fenced_now(old: BrokerImage | None, new: BrokerImage | None) -> bool:
    """Whether a broker was given up. A new life starts fenced, too, but connections to it may be there already."""
    if old is None or old.fenced:
        return False
    return new is None or (new.fenced and new.broker_epoch == old.broker_epoch)

"""The gateway role: what its connections and handlers share. AnsweringGateway (answering.py) is the whole of it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from tailrace.access.authorizer import Authorizer
from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.background import spawn
from tailrace.net.identity import Identity, user_of
from tailrace.net.large import Large
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.request_memory import DEFAULT_BYTES, RequestMemory
from tailrace.net.limits.request_memory_watch import RequestMemoryWatch
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.quotas.meter import MeterAt, MeterOf
from tailrace.net.requests.metrics import RequestMetrics
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.wire.messages import CreateTopicsRequest
from tailrace_gateway.encoded_topics import EncodedTopics
from tailrace_gateway.relay.buffers import BufferPool
from tailrace_gateway.relay.node import NodeLink
from tailrace_gateway.relay.requests import Frame
from tailrace_gateway.relay.routes import Versions, table
from tailrace_gateway.suspects import Suspects

_NAMED_AFTER_DEATH_MS = 10_000.0
_CREATED_AT_ONCE = 100  # topics, whose partitions are counted together


class Follower(Protocol):
    """What the gateway needs of tailrace.net.metadata.follower."""

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
class GatewayLimits:
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

    @property
    def deadlines(self) -> ConnectionDeadlines:
        """How long a client's connection may be quiet."""
        return ConnectionDeadlines(self.idle_ms, self.head_ms, self.dribble_ms, self.dribble_bytes)


@dataclass(frozen=True, slots=True)
class Advertised:
    """What clients are told: the gateway's own node ports, or the brokers' CLIENT listeners."""

    brokers: bool = False
    auto_create_topics: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a gateway is made of; app.py opens it."""

    follower: Follower
    clock: Clock
    random: Random
    log: FilteringBoundLogger
    meter_of: MeterAt
    sasl: SaslAuthenticator
    limits: GatewayLimits
    advertised: Advertised
    boot_id: str
    secret: Secret | None = None
    authorizer: Authorizer | None = None  # of clients; without one they may do everything


class Gateway(ABC):
    """Stateless but for its open connections; everything it knows of the cluster is in the follower's image."""

    def __init__(self, parts: Parts) -> None:
        self.follower = parts.follower
        self.clock = parts.clock
        self.random = parts.random
        self.log = parts.log
        self.meter_of = parts.meter_of
        self.sasl = parts.sasl
        self.limits = parts.limits
        self.advertised = parts.advertised
        self.boot_id = parts.boot_id
        self.secret = parts.secret
        self.authorizer = parts.authorizer
        self.pool = BufferPool()
        self.memory = RoleMemory(RequestMemory(parts.limits.request_memory_bytes))
        RequestMemoryWatch(self.memory.requests)
        self.table = table()
        self.suspects = Suspects(self)
        self.encoded = EncodedTopics()
        self.refusals = SeldomWarning(parts.log, parts.clock.monotonic_ms, "connection closed")
        self.large = Large()
        self.fenced_at_ms: dict[int, float] = {}
        self.away_since_ms: dict[int, float] = {}
        self.creating: set[str] = set()
        self.background: set[asyncio.Task[None]] = set()
        self.closed_connections = 0
        self.request_metrics = RequestMetrics(parts.clock.monotonic_ms)
        self.throttled_ms = 0
        self.relayed_bytes = [0, 0]  # from clients, to clients

    @property
    def image(self) -> MetadataImage:
        return self.follower.image

    def meters_of(self, identity: Identity) -> MeterOf:
        """The meters of one client, by its client id."""
        return partial(self.meter_of, identity.node_id, user=user_of(identity.principal))

    def count_throttle(self, throttle_time_ms: int) -> None:
        """A client is muted for that time."""
        self.throttled_ms += throttle_time_ms

    def serve_versions(self, served: Mapping[str, Versions]) -> None:
        """Clamps what is served to what the roles behind serve; connections already open keep what they were told."""
        self.table = table(served)

    # -- addresses ------------------------------------------------------------------------------------------------

    def endpoint_of(self, broker: BrokerImage, identity: Identity) -> tuple[str, int] | None:
        """The host and port this client is told for a broker; None if it has none for clients."""
        if not self.advertised.brokers:
            return identity.endpoint_of(broker.broker_id)
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
        """Asks the controller for topics that Metadata named, once at a time for each."""
        self._create(names)

    def create_internal_topic(self, name: str) -> None:
        """Asks the controller for a topic that coordinators write, whose partitions and replicas it knows."""
        self._create([name])

    def _create(self, names: Sequence[str]) -> None:
        wanted = [name for name in names if name not in self.creating]
        if wanted:
            self.creating.update(wanted)
            self.run_in_background(self._ask_to_create(wanted))

    def run_in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Runs something beside the requests; ended with the gateway."""
        return spawn(work, self.background)

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

    # -- what a connection asks -----------------------------------------------------------------------------------

    @abstractmethod
    async def answer(self, frame: Frame, connection: Any) -> bytes | memoryview | None:
        """The whole answer frame; None when the node has taken the request over after all or none is due."""

    @abstractmethod
    async def open_node(self, connection: Any) -> NodeLink | None:
        """One try to reach the connection's node; None when it is not there."""

    @abstractmethod
    async def offer(self, connection: Any) -> bool:
        """Whether the connection is the node's broker's now (gateway.handover)."""

    @abstractmethod
    def closed(self, connection: Any) -> None:
        """A connection counts itself out."""

"""The whole gateway: its connections, and where each request is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tailrace.errors import ErrorCode
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.net.address import Address
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service, answer_frame, topic_names
from tailrace.net.identity import Identity
from tailrace.net.members.endpoints import address_of
from tailrace.net.preamble import identity_of
from tailrace.net.sasl.opening import sasl_handlers
from tailrace.net.tls.handshakes import Handshakes
from tailrace.wire import codec
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.connection import SIZE
from tailrace.wire.header import parse_request_header
from tailrace.wire.messages import PreambleRequest, PreambleResponse
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.clients.handover import Handover
from tailrace_gateway.forward import broker_away, configs, controller, coordinator, unfenced
from tailrace_gateway.gateway import Gateway, Parts
from tailrace_gateway.handlers import HANDLERS, api_versions
from tailrace_gateway.relay.node import NodeLink, connect, preamble
from tailrace_gateway.relay.requests import RAW_TOKEN, Frame
from tailrace_gateway.relay.routes import Route


class AnsweringGateway(Gateway):
    """What app.py opens."""

    def __init__(self, parts: Parts, handlers: Mapping[int, Handler] = HANDLERS, *, handover: bool = False) -> None:
        super().__init__(parts)
        self.connections: set[ClientLink] = set()
        self.handshakes: list[Handshakes] = []  # of each listener with TLS
        self.handover = Handover(self, wanted=handover)
        self._all_closed: asyncio.Event | None = None
        self._service = Service(
            self,
            {**handlers, **sasl_handlers(parts.sasl)},
            APIS,
            parts.log,
            internal=False,
            listener="CLIENT",
            topic_name=topic_names(lambda: self.image),
            large=self.large,
            memory=self.memory,
        )

    # -- connections ----------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more connections may be open, with those that have yet to finish their handshake."""
        return self.limits.max_connections - len(self.connections) - sum(map(len, self.handshakes))

    def closed(self, connection: ClientLink) -> None:
        """A connection counts itself out."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.closed_connections += 1
            self.relayed_bytes[0] += connection.received_bytes
            self.relayed_bytes[1] += connection.sent_bytes
            if not self.connections and self._all_closed is not None:
                self._all_closed.set()

    async def offer(self, connection: ClientLink) -> bool:
        """Whether the connection is the node's broker's now (gateway.handover)."""
        return await self.handover.offer(connection)

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
                    coordinator.owner_changed(connection, new)

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
            sock = await connect(address, self.limits.connect_ms, self.secret)
        except OSError:
            self.suspects.refused(connection.node_id)
            self.away_since_ms.setdefault(connection.node_id, self.clock.monotonic_ms())
            return None
        self.away_since_ms.pop(connection.node_id, None)
        node = NodeLink(sock, self.pool, connection)
        node.write(preamble(connection.session.identity))
        return node

    # -- requests that are not relayed ----------------------------------------------------------------------------

    async def answer(self, frame: Frame, connection: ClientLink) -> bytes | memoryview | None:
        """The whole answer frame; None when the node has taken the request over after all or none is due."""
        if not await unfenced.broker_there(self, connection, frame):
            return None
        if frame.route == Route.HERE:
            return await self._here(frame, connection)
        if frame.key in configs.SPLIT:
            return await configs.answer(self, connection, frame)
        if frame.route == Route.CONTROLLER:
            return await controller.to_controller(self, connection, frame)
        if frame.route == Route.COORDINATOR:
            return await coordinator.to_coordinator(self, connection, frame)
        if frame.key == ApiKey.INIT_PRODUCER_ID and coordinator.is_transactional(connection, frame):
            return await coordinator.to_coordinator(self, connection, frame)
        return await broker_away.wait_for_node(self, connection, frame)

    async def _here(self, frame: Frame, connection: ClientLink) -> bytes | memoryview:
        if frame.key == ApiKey.PREAMBLE:
            return self._introduced(frame, connection)
        if frame.version == RAW_TOKEN:
            answer = await self.sasl.raw_token(bytes(frame.data[SIZE.size :]), connection.session)
            return SIZE.pack(len(answer)) + answer
        if frame.key == ApiKey.API_VERSIONS and frame.version > APIS[frame.key].max_version:
            return codec.encode_response(api_versions.unsupported(), 0, frame.correlation_id)
        header = parse_request_header(memoryview(frame.data)[4:])
        context = Context(frame.key, frame.version, frame.correlation_id, header.client_id, connection)
        async with controller.request_of(self, frame) as request:
            return await answer_frame(self._service, request, context)

    def _introduced(self, frame: Frame, connection: ClientLink) -> bytes:
        """The preamble of a broker that relays for its clients: from here on this connection is theirs."""
        request: PreambleRequest = codec.decode_request(frame.key, frame.version, controller.body_of(frame))
        identity = identity_of(request)
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

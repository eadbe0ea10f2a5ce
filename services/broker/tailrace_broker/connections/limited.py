"""Quotas at the broker itself, of clients at its own listener (gateway.advertise=brokers) and of those that a gateway
handed over: whoever holds a client's socket charges it.

A client's meter is looked for at its first request, and again when its client id or the quotas change. While no quota
is set nothing is looked at. What a gateway relays is charged there, and is not seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.net.connection import Connection
from tailrace.net.dispatch import HotHandler, Service
from tailrace.net.identity import user_of
from tailrace.net.quotas.meters import Quotas
from tailrace.net.quotas.throttled_connections import Closes, ThrottledConnections
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.server import Server, hot_handlers
from tailrace.net.session import AuthenticationState
from tailrace.net.tls.handshakes import Handshakes

# A client id's field that no request has: with it the first one, whatever its client id, is another one.
UNKNOWN_ID = b"\xff\xfe"


class LimitedClients:
    """Says which clients a quota limits, and has them charged."""

    def __init__(self, quotas: Quotas, node_id: int, service: Service, charging: Mapping[int, HotHandler]) -> None:
        """charging: the hot handlers that limited clients get instead of the service's."""
        self._quotas = quotas
        self._node_id = node_id
        self._hot = {**hot_handlers(service, service.hot), **hot_handlers(service, charging)}
        self.throttled_ms = 0

    @property
    def named(self) -> bytes | None:
        """What a new connection's client id is compared with: nothing while nobody is limited."""
        return UNKNOWN_ID if self._quotas.held else None

    def judge(self, connection: Connection, client_id: bytes) -> None:
        """Has the client charged if it has a quota."""
        session = connection.session
        session.on_throttle = self._throttled
        session.meter_of = partial(self._quotas.meter_of, self._node_id, user=user_of(session.identity.principal))
        session.rename(client_id)
        meter = session.meter
        if meter.produce_limited or meter.fetch_limited or meter.request_limited:
            connection.limit(self._hot)
        else:
            connection.unlimit()

    def image_changed(self, connections: Iterable[Connection], old: MetadataImage, new: MetadataImage) -> None:
        """Every client is judged at its next request, if quotas have changed. To be told after the meters."""
        if old.quotas is new.quotas:
            return
        named = self.named
        for connection in connections:
            connection.named = named
            if named is None:
                connection.unlimit()

    def _throttled(self, throttle_time_ms: int) -> None:
        self.throttled_ms += throttle_time_ms


class DirectConnection(Connection):
    """A client at the broker's own listener."""

    def __init__(self, owner: DirectClients, server: Server) -> None:
        super().__init__(server)
        self._owner = owner

    def connection_made(self, transport: Any) -> None:
        # One with TLS was asked for before its handshake.
        if transport.get_extra_info("sslcontext") is None and self._owner.refused_transport(transport):
            transport.pause_reading()
            return
        self.named = self._owner.limited.named
        self._owner.connections.add(self)
        super().connection_made(transport)
        self._owner.throttled.per_ip.opened(self, self.session.identity.client_host)
        self._owner.sasl.begin(self.session)

    def authentication_changed(self) -> None:
        """The next request looks for the meter of the user, and is relayed for that one."""
        super().authentication_changed()
        if self.session.authentication is AuthenticationState.COMPLETE:
            self.named = self._owner.limited.named
            self._owner.forget_relay(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connections.discard(self)
        self._owner.throttled.per_ip.closed(self)
        super().connection_lost(exc)

    def renamed(self, client_id: bytes) -> None:
        self._owner.limited.judge(self, client_id)


class DirectClients:
    """The clients of the broker's own listener."""

    def __init__(
        self,
        limited: LimitedClients,
        throttled: ThrottledConnections,
        sasl: SaslAuthenticator,
        forget_relay: Callable[[Connection], None],
        config: Config,
        handshakes: Handshakes | None,
    ) -> None:
        """forget_relay: ends the connection by which a client's other requests go to a gateway."""
        if handshakes is not None:
            throttled.per_ip.half_open.append(handshakes)
        self.limited = limited
        self.sasl = sasl
        self.forget_relay = forget_relay
        self.throttled = throttled
        self.connections: set[Connection] = set()
        self._config = config

    def accepted(self, server: Server) -> Connection:
        """What the listener makes of a client's socket."""
        return DirectConnection(self, server)

    def refused_transport(self, transport: Any) -> bool:
        """Whether the client's address has opened too many (KIP-612); then the transport is closed, now or later."""
        peer = transport.get_extra_info("peername")
        return peer is not None and self.refused(transport, peer[0])

    def refused(self, sock: Closes, client_host: str) -> bool:
        """The same of a client at that address."""
        room = self._config.max_connections - len(self.connections)
        return self.throttled.refused(sock, client_host, self._config.node_id, room)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """To be told after the meters."""
        self.limited.image_changed(self.connections, old, new)

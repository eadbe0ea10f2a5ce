"""Connections that a gateway of this host handed over (zero-hop data path): accepted there, served here.

The Unix connection by which a socket came stays: over it go the requests that are not the broker's to answer, and while
it is open the gateway counts the client among its own. Quotas of the client are charged here, as of one that came to
the broker's own listener: the process that holds the socket charges.
"""

from __future__ import annotations

import asyncio
from typing import Any

from structlog.typing import FilteringBoundLogger

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.background import spawn
from tailrace.net.connection import Connection
from tailrace.net.context import Connected
from tailrace.net.identity import Identity
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.server import Server
from tailrace.net.transport import descriptor
from tailrace_broker.connections.client_listener import GatewayRelay
from tailrace_broker.connections.limited import LimitedClients

_COMES_WITHIN_MS = 5000.0


class AdoptedConnection(Connection):
    """A client's socket that a gateway accepted."""

    def __init__(
        self, limited: LimitedClients, sasl: SaslAuthenticator, server: Server, identity: Identity, unread: bytes
    ) -> None:
        super().__init__(server, identity, unread)
        self._limited = limited
        self._sasl = sasl

    def connection_made(self, transport: Any) -> None:
        self.named = self._limited.named
        self._sasl.go_on(self.session)
        super().connection_made(transport)

    def renamed(self, client_id: bytes) -> None:
        self._limited.judge(self, client_id)


class Adopted:
    """The broker's side of the hand-over."""

    def __init__(
        self,
        server: Server,
        relay: GatewayRelay,
        sasl: SaslAuthenticator,
        log: FilteringBoundLogger,
        limited: LimitedClients,
    ) -> None:
        self.server = server
        self._sasl = sasl
        self._limited = limited
        self._relay = relay
        self._log = log
        self._coming: set[asyncio.Task[None]] = set()
        self.count = 0

    def __len__(self) -> int:
        return len(self.server.connections)

    @property
    def awaited_count(self) -> int:
        """How many sockets are on their way."""
        return len(self._coming)

    def expect(self, connection: Connected) -> None:
        """The next thing on this internal connection is a client's socket. Raises ApiError where it can't be taken."""
        if not isinstance(connection, Connection) or not connection.passes_sockets:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a socket can only come over a Unix socket")
        transport = connection.release()
        spawn(self._take(transport, connection.session.identity), self._coming)

    async def _take(self, transport: Any, identity: Identity) -> None:
        try:
            sock, unread = await descriptor.receive(transport, _COMES_WITHIN_MS)
        except OSError as error:  # the client left meanwhile, or the gateway did
            self._log.debug("no connection was handed over", why=str(error))
            transport.abort()
            return
        except asyncio.CancelledError:
            transport.abort()
            raise
        connection = AdoptedConnection(self._limited, self._sasl, self.server, identity, unread)
        self._relay.adopt(connection, transport)
        self.count += 1
        try:
            await self.server.adopt(sock, connection)
        except (OSError, asyncio.CancelledError) as error:
            self._log.debug("a connection handed over broke", why=repr(error))
            self._relay.forget(connection)
            sock.close()

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """To be told after the meters."""
        self._limited.image_changed(self.server.connections, old, new)

    async def close(self) -> None:
        """Ends them all."""
        for task in self._coming:
            task.cancel()
        await self.server.close()

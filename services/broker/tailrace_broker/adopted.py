"""Connections that a gateway of this host handed over (zero-hop data path): accepted there, served here.

The Unix connection by which a socket came stays: over it go the requests that are not the broker's to answer, and while
it is open the gateway counts the client among its own. A client that a quota limits belongs to the gateway, where the
quota is charged: it is not taken, and left as soon as nothing is owed to it when it becomes one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net import descriptor
from tailrace.net.context import Identity
from tailrace.net.server import Connection, Server
from tailrace.quota.entity import ClientQuotas, Kind
from tailrace_broker.client_listener import GatewayRelay

_COMES_WITHIN_MS = 5000.0
_CLIENT_ID = "client id"


class Adopted:
    """The broker's side of the hand-over."""

    def __init__(self, server: Server, relay: GatewayRelay, image: MetadataImage, log: Any) -> None:
        self._server = server
        self._relay = relay
        self._log = log
        self._quotas = ClientQuotas(image.quotas)
        self._coming: set[asyncio.Task[None]] = set()
        self.count = 0

    def __len__(self) -> int:
        return len(self._server.connections)

    def expect(self, connection: Connection, client_id: str) -> None:
        """The next thing on this internal connection is a client's socket. Raises ApiError where it can't be taken."""
        if not connection.passes_sockets:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a socket can only come over a Unix socket")
        if self._limited(client_id):
            raise ApiError(ErrorCode.POLICY_VIOLATION, "a quota of this client is charged at the gateway")
        transport = connection.release()
        task = asyncio.get_running_loop().create_task(self._take(transport, connection.identity, client_id))
        self._coming.add(task)
        task.add_done_callback(self._coming.discard)

    async def _take(self, transport: Any, identity: Identity, client_id: str) -> None:
        try:
            sock, unread = await descriptor.receive(transport, _COMES_WITHIN_MS)
        except OSError as error:  # the client left meanwhile, or the gateway did
            self._log.debug("no connection was handed over", why=str(error))
            transport.abort()
            return
        except asyncio.CancelledError:
            transport.abort()
            raise
        connection = Connection(self._server, identity, unread)
        connection.state[_CLIENT_ID] = client_id
        self._relay.adopt(connection, transport)
        self.count += 1
        try:
            await self._server.adopt(sock, connection)
        except (OSError, asyncio.CancelledError) as error:
            self._log.debug("a connection handed over broke", why=repr(error))
            self._relay.forget(connection)
            sock.close()

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Leaves the clients that a quota limits from now on; they come back by the gateway and stay there."""
        if old.quotas is new.quotas:
            return
        self._quotas = ClientQuotas(new.quotas)
        for connection in list(self._server.connections):
            if self._limited(connection.state[_CLIENT_ID]):
                connection.leave()

    def _limited(self, client_id: str) -> bool:
        return any(self._quotas.rate(client_id, kind) is not None for kind in Kind)

    async def close(self) -> None:
        """Ends them all."""
        for task in list(self._coming):
            task.cancel()
        await self._server.close()

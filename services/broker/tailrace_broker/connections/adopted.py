"""Connections that a gateway of this host handed over (zero-hop data path): accepted there, served here.

The Unix connection by which a socket came stays: over it go the requests that are not the broker's to answer, and while
it is open the gateway counts the client among its own. A client that a quota limits belongs to the gateway, where the
quota is charged: it is not taken, and given back as soon as nothing is owed to it when it becomes one.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.connection import Connection
from tailrace.net.context import ANONYMOUS, Connected, Identity, user_of
from tailrace.net.server import Server
from tailrace.net.transport import descriptor
from tailrace_broker.connections.client_listener import GatewayRelay
from tailrace_broker.connections.limited import LimitedClients

_COMES_WITHIN_MS = 5000.0
_ID_BYTES = Struct(">h")
_ID_BYTES_MAX = 32_767
_USER = user_of(ANONYMOUS)  # of every client: nobody is authenticated yet


class AdoptedConnection(Connection):
    """A client's socket that a gateway accepted."""

    def __init__(self, owner: Adopted, server: Server, identity: Identity, unread: bytes, client_id: str) -> None:
        super().__init__(server, identity, unread)
        self._owner = owner
        self.client_id = client_id

    def connection_made(self, transport: Any) -> None:
        self.named = self._owner.named(self.client_id)
        super().connection_made(transport)
        self._owner.judge(self)  # quotas may have changed while the socket was on its way

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.gone(self)
        super().connection_lost(exc)

    def renamed(self, client_id: str) -> None:
        self.client_id = client_id
        self._owner.judge(self)

    def left(self) -> None:
        """Back to the gateway, which goes on with the client's next request; without its own to another one."""
        if self._owner.give_back(self):
            self.abort()  # of this process' descriptor only
        else:
            self._owner.seek(self)


class Adopted:
    """The broker's side of the hand-over."""

    def __init__(self, server: Server, relay: GatewayRelay, log: Any, limited: LimitedClients) -> None:
        self.server = server
        self._limits = limited
        self._relay = relay
        self._log = log
        self._seeking: dict[AdoptedConnection, asyncio.Task[None]] = {}
        self.without_gateway: set[AdoptedConnection] = set()  # limited, and charged here while no gateway can
        self._coming: set[asyncio.Task[None]] = set()
        self.count = 0
        self.returned_count = 0

    def __len__(self) -> int:
        return len(self.server.connections)

    @property
    def awaited_count(self) -> int:
        """How many sockets are on their way."""
        return len(self._coming)

    def expect(self, connection: Connected, client_id: str) -> None:
        """The next thing on this internal connection is a client's socket. Raises ApiError where it can't be taken."""
        if not isinstance(connection, Connection) or not connection.passes_sockets:
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
        connection = AdoptedConnection(self, self.server, identity, unread, client_id)
        self._relay.adopt(connection, transport)
        self.count += 1
        try:
            await self.server.adopt(sock, connection)
        except (OSError, asyncio.CancelledError) as error:
            self._log.debug("a connection handed over broke", why=repr(error))
            self._relay.forget(connection)
            sock.close()

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Gives the clients back that a quota limits from now on. To be told after the meters."""
        if old.services is not new.services:
            judged, self.without_gateway = self.without_gateway, set()
            for alone in judged:
                self.judge(alone)
        if old.quotas is new.quotas:
            return
        for connection in list(self.server.connections):
            assert isinstance(connection, AdoptedConnection)
            if connection.named is None:
                connection.named = self.named(connection.client_id)
            self.judge(connection)

    def named(self, client_id: str) -> bytes | None:
        """The header's field of that client id, which is watched for another one while there are quotas at all."""
        encoded = client_id.encode()[:_ID_BYTES_MAX]  # what is not UTF-8 has grown; then it is another one at first
        return _ID_BYTES.pack(len(encoded)) + encoded if self._limits.quotas else None

    def judge(self, connection: AdoptedConnection) -> None:
        """Lets a client go that a quota limits; what is charged here meanwhile goes to the client id of now."""
        if connection in self.without_gateway:
            self._limits.judge(connection, connection.client_id)
        if not connection.closing and self._limited(connection.client_id):
            connection.leave()

    def give_back(self, connection: AdoptedConnection) -> bool:
        """Whether the client's socket is on its way to the gateway that handed it over."""
        given = self._relay.give_back(connection)
        self.returned_count += given
        return given

    def seek(self, connection: AdoptedConnection) -> None:
        """Its own gateway has gone: another takes a limited client, and while there is none it is charged here."""
        if connection not in self._seeking:
            task = asyncio.get_running_loop().create_task(self._seek(connection))
            self._seeking[connection] = task
            task.add_done_callback(lambda _: self._seeking.pop(connection, None))

    def gone(self, connection: AdoptedConnection) -> None:
        """The connection is no more."""
        self.without_gateway.discard(connection)

    async def _seek(self, connection: AdoptedConnection) -> None:
        reached = await self._relay.reach(connection)
        if connection.closing:
            return
        if reached and self.give_back(connection):
            connection.abort()
        else:
            self.without_gateway.add(connection)
            self._limits.judge(connection, connection.client_id)
            connection.stay()

    def _limited(self, client_id: str) -> bool:
        return self._limits.quotas.limited(_USER, client_id)

    async def close(self) -> None:
        """Ends them all."""
        for task in [*self._coming, *self._seeking.values()]:
            task.cancel()
        await self.server.close()

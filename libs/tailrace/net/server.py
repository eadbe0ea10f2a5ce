"""The listener every role shares: what it binds, and the connections it holds (tailrace.net.connection)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.net.address import Address
from tailrace.net.authentication.peer import other_user
from tailrace.net.connection import Connection
from tailrace.net.dispatch import HotHandler, HotHandlers, Service
from tailrace.net.identity import principal_of
from tailrace.net.limits.deadline_check import DeadlineCheck
from tailrace.net.limits.descriptors import make_room, most_descriptor
from tailrace.net.limits.request_memory_watch import RequestMemoryWatch
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.tls.listener import EncryptedListener
from tailrace.net.tls.transport import EncryptedTransport
from tailrace.net.transport.accepting import BACKLOG


def bind_unix(path: str) -> socket.socket:
    """A Unix socket only its owner may open; a stale one of that name is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    Path(path).chmod(0o600)
    return sock


def loop_ms() -> float:
    """The event loop's time."""
    return asyncio.get_running_loop().time() * 1000


def hot_handlers(service: Service, hot: Mapping[int, HotHandler]) -> HotHandlers:
    """Each with the versions that the service serves."""
    return {
        key: (handler, service.apis[key].min_version, service.apis[key].max_version) for key, handler in hot.items()
    }


def nobody_refused(sock: Any, client_host: str) -> bool:
    return False


@dataclass(frozen=True)
class Encryption:
    """Makes a server's TCP addresses TLS. refused: asked before a handshake, as EncryptedListener has it."""

    handshakes: Handshakes
    refused: Callable[[Any, str], bool] = nobody_refused


class Server:
    """The bound sockets of one service. accepted: what is made of a client's socket, if not a plain Connection."""

    def __init__(
        self,
        service: Service,
        accepted: Callable[[Server], Connection] = Connection,
        encryption: Encryption | None = None,
    ) -> None:
        self.service = service
        self._accepted = accepted
        self.hot = hot_handlers(service, service.hot)
        self.connections: set[Connection] = set()
        self.addresses: list[Address] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._paths: list[str] = []
        self.deadline_check = DeadlineCheck(self.connections, service.deadlines)
        self._closing = False
        self._encryption = encryption
        self._encrypted: list[EncryptedListener] = []
        self.refusals = SeldomWarning(service.log, loop_ms, "connection closed")
        self.most_descriptor = most_descriptor()
        self._refused = SeldomWarning(service.log, loop_ms, "connection closed")
        RequestMemoryWatch(service.memory.requests)

    def opened(self, connection: Connection) -> None:
        """Counts a connection in, or closes it at once above max.connections, and while all are closed."""
        if self._closing:
            connection.close()
            return
        if (uid := other_user(connection.socket)) is not None:
            if self.service.authentication is not None:
                self.service.authentication.refused(f"user {uid}", "a Unix socket takes connections of its own user")
            connection.close()
            return
        if len(self.connections) >= self.service.max_connections:
            self._refused.say(why=f"{len(self.connections)} connections are open")
            connection.close()
            return
        if self._few_descriptors(connection) and not make_room(self.connections):
            self._refused.say(why="few file descriptors are left", client=connection.session.identity.client)
            connection.close()
            return
        self.connections.add(connection)
        authentication = self.service.authentication
        if authentication is not None and authentication.secured and connection.socket.family != socket.AF_UNIX:
            authentication.began(connection)

    def _few_descriptors(self, connection: Connection) -> bool:
        """Whether a client has one of the last; other services may have them."""
        return not self.service.internal and connection.socket.fileno() > self.most_descriptor

    async def adopt(self, sock: socket.socket, connection: Connection) -> None:
        """Serves a socket that another process accepted and read from; raises OSError if it broke meanwhile."""
        self.deadline_check.start()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)

    async def listen(self, address: Address) -> None:
        """Binds one more address; port 0 picks a free one. A stale Unix socket is replaced."""
        loop = asyncio.get_running_loop()
        if address.is_unix:
            sock = bind_unix(address.host)
            server = await loop.create_unix_server(lambda: self._accepted(self), sock=sock, backlog=BACKLOG)
            self._paths.append(address.host)
            self.addresses.append(address)
        elif self._encryption is not None:
            await self._listen_encrypted(address, self._encryption)
            return
        else:
            server = await loop.create_server(lambda: self._accepted(self), address.host, address.port, backlog=BACKLOG)
            host, port = server.sockets[0].getsockname()[:2]
            self.addresses.append(Address(host, port))
        self._servers.append(server)
        self.deadline_check.start()

    async def _listen_encrypted(self, address: Address, encryption: Encryption) -> None:
        def refused(sock: Any, client_host: str) -> bool:
            return encryption.refused(sock, client_host) or self._full(sock, len(encryption.handshakes))

        listener = EncryptedListener(encryption.handshakes, refused, self._encrypts, self.service.log)
        self._encrypted.append(listener)
        self.addresses.append(await listener.listen(address))
        self.deadline_check.start()

    def _full(self, sock: Any, handshakes: int) -> bool:
        """Whether max.connections are open, with those that have yet to finish their handshake; then it is closed."""
        if len(self.connections) + handshakes < self.service.max_connections:
            return False
        self._refused.say(why=f"{self.service.max_connections} connections are open")
        sock.close()
        return True

    def _encrypts(self, sock: EncryptedSocket, name: str | None) -> None:
        """A client is through its handshake."""
        EncryptedTransport(sock, principal_of(name), self._accepted(self)).start()

    async def close(self) -> None:
        """Stops listening, closes what is open and removes the Unix sockets."""
        self._closing = True
        self.deadline_check.close()
        for server in self._servers:
            server.close()
        for listener in self._encrypted:
            listener.close()
        for connection in list(self.connections):
            connection.close()
        if self.service.authentication is not None:
            self.service.authentication.close()
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        # Without wait_closed: from Python 3.12 on asyncio's waits for every client to take its last answers.


async def serve(
    addresses: Sequence[Address],
    service: Service,
    accepted: Callable[[Server], Connection] = Connection,
    encryption: Encryption | None = None,
) -> Server:
    """Binds every address or none."""
    server = Server(service, accepted, encryption)
    try:
        for address in addresses:
            await server.listen(address)
    except OSError:
        await server.close()
        raise
    return server

"""A broker's own listener over TLS: accepts, admits before anything costs, and serves what is through its handshake."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from tailrace.net.address import Address
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.handshakes import Handshakes

_BACKLOG = 1024
_ACCEPTS = 64  # connections taken per wake-up
_REST_MS = 200.0

# (socket, client's host) -> whether the connection is refused; then it is closed, now or later (KIP-612).
Refused = Callable[[Any, str], bool]


def _bound(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class EncryptedListener:
    """`opened` is given each client that is through: (socket, principal's name or None)."""

    def __init__(
        self,
        handshakes: Handshakes,
        refused: Refused,
        opened: Callable[[EncryptedSocket, str | None], None],
        log: Any,
    ) -> None:
        self._handshakes = handshakes
        self._refused = refused
        self._opened = opened
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []

    async def listen(self, address: Address) -> Address:
        """Binds all that the host's name stands for; returns the first. Raises OSError."""
        found = await self._loop.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = [_bound(family, where) for family, _, _, _, where in dict.fromkeys(found)]
        self._sockets += bound
        for sock in bound:
            self._loop.add_reader(sock.fileno(), self._accept, sock)
        host, port = bound[0].getsockname()[:2]
        return Address(host, port)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of file descriptors: those waiting stay in the backlog for a while
                self._log.error("cannot accept", why=os.strerror(error.errno or errno.EIO))
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(_REST_MS / 1000, self._again, listening)
                return
            if not self._refused(sock, peer[0]):
                sock.setblocking(False)
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._handshakes.begin(sock, str(Address(*peer[:2])), self._opened)

    def _again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def close(self) -> None:
        """Listens no more, and ends the handshakes; connections stay."""
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()
        self._handshakes.close()

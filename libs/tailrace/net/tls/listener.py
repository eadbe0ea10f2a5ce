"""A broker's own listener over TLS: accepts, admits before anything costs, and serves what is through its handshake."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

from structlog.typing import FilteringBoundLogger

from tailrace.net.address import Address
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.transport.accepting import Accepting, bind_tcp

# (socket, client's host) -> whether the connection is refused; then it is closed, now or later (KIP-612).
Refused = Callable[[Any, str], bool]


class EncryptedListener:
    """`opened` is given each client that is through: (socket, principal's name or None)."""

    def __init__(
        self,
        handshakes: Handshakes,
        refused: Refused,
        opened: Callable[[EncryptedSocket, str | None], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._handshakes = handshakes
        self._refused = refused
        self._opened = opened
        self._log = log
        self._accepting: list[Accepting] = []

    async def listen(self, address: Address) -> Address:
        """Binds all that the host's name stands for; returns the first. Raises OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = [bind_tcp(family, where) for family, _, _, _, where in dict.fromkeys(found)]
        clock = self._handshakes.clock
        self._accepting += [Accepting(sock, self._accepted, clock, self._cannot_accept) for sock in bound]
        host, port = bound[0].getsockname()[:2]
        return Address(host, port)

    def _accepted(self, sock: socket.socket, peer: Any) -> None:
        if self._refused(sock, peer[0]):
            return
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshakes.begin(sock, str(Address(*peer[:2])), self._opened)

    def _cannot_accept(self, why: str) -> None:
        self._log.error("cannot accept", why=why)

    def close(self) -> None:
        """Listens no more, and ends the handshakes; connections stay."""
        for accepting in self._accepting:
            accepting.close()
        self._accepting.clear()
        self._handshakes.close()

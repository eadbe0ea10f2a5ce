"""TLS of the admin port, by the handshakes of Kafka clients: with their bounds, and with new certificates."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from tailrace.net.address import Address
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.tls.transport import EncryptedTransport
from tailrace.net.transport.accepting import Accepting

_READ_BYTES: Final = 16_384


class EncryptedListening:
    """A listening socket whose clients speak TLS; `protocol_of` makes a connection's protocol, by its certificate."""

    def __init__(
        self,
        listening: socket.socket,
        handshakes: Handshakes,
        protocol_of: Callable[[str | None], asyncio.Protocol],
        log: FilteringBoundLogger,
    ) -> None:
        self._handshakes = handshakes
        self._protocol_of = protocol_of
        self._log = log
        self._accepting = Accepting(listening, self._accepted, handshakes.clock, self._cannot_accept)

    def _accepted(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshakes.begin(sock, str(Address(*peer[:2])), self._opened)

    def _opened(self, sock: EncryptedSocket, name: str | None) -> None:
        EncryptedTransport(sock, name, _Decrypted(self._protocol_of(name))).start()

    def _cannot_accept(self, why: str) -> None:
        self._log.error("cannot accept", port="admin", why=why)

    def close(self) -> None:
        """Accepts no more, and ends the handshakes; connections stay."""
        self._accepting.close()
        self._handshakes.close()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for: uvicorn ends the connections."""


class _Decrypted(asyncio.BufferedProtocol):
    """Hands bytes to a protocol that wants them as objects."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self.connection_made = protocol.connection_made  # type: ignore[method-assign]
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._buffer[:nbytes]))

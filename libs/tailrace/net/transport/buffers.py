"""How much the kernel keeps for a connection (socket.receive.buffer.bytes, socket.send.buffer.bytes)."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import NamedTuple


class SocketBuffers(NamedTuple):
    """What is kept before it is read, and after it is sent; -1 leaves it to the system.

    The system lets the first grow with what comes, so that a read brings several requests where a client has them
    under way, and the second with what the client has room for, so that a large answer takes few calls.
    """

    receive_bytes: int = -1
    send_bytes: int = -1

    def set_on(self, sock: socket.socket) -> None:
        """Keeps SO_RCVBUF and SO_SNDBUF at these sizes (Linux: twice as much, with its own bookkeeping)."""
        with suppress(OSError):  # gone already
            if self.receive_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
            if self.send_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_bytes)

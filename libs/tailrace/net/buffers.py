"""How much the kernel keeps for a connection before it is read (socket.receive.buffer.bytes)."""

import socket
from contextlib import suppress


def set_receive_buffer(sock: socket.socket, size_bytes: int) -> None:
    """Keeps SO_RCVBUF at this size (Linux: twice as much, with its own bookkeeping); -1 leaves it to the system.

    The system lets it grow with what comes, so that a read brings several requests where a client has them under way.
    """
    if size_bytes > 0:
        with suppress(OSError):  # gone already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

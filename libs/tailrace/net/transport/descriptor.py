"""An accepted socket on its way from one process to another of the same host (SCM_RIGHTS over a Unix socket).

With it go the bytes that were read from it and not answered yet: a size of four bytes, then they.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from struct import Struct
from typing import Any

_SIZE = Struct(">i")
_FD_BYTES = array.array("i").itemsize
_UNREAD_BYTES_MAX = 1 << 20


def send(over: socket.socket, sock: socket.socket, unread: bytes) -> bytes:
    """Sends the socket; returns what of the bytes has not left. The sender still has to close its own descriptor.

    Raises OSError, BlockingIOError among them, when the socket has not left.
    """
    data = _SIZE.pack(len(unread)) + unread
    descriptors = array.array("i", [sock.fileno()])
    sent = over.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    return data[sent:]


async def receive(transport: Any, timeout_ms: float) -> tuple[socket.socket, bytes]:
    """Takes a socket, and the bytes read from it, off a transport that does not read meanwhile.

    Raises OSError (TimeoutError is one) if none comes.
    """
    async with asyncio.timeout(timeout_ms / 1000):
        with _second(transport.get_extra_info("socket")) as over:
            sock, head = await _descriptor(over)
            try:
                head += await _exactly(over, _SIZE.size - len(head))
                (size,) = _SIZE.unpack(head)
                if not 0 <= size <= _UNREAD_BYTES_MAX:
                    raise ConnectionAbortedError(f"a socket came with {size} unread bytes")
                return sock, await _exactly(over, size)
            except BaseException:
                sock.close()
                raise


@contextlib.contextmanager
def _second(sock: Any) -> Iterator[socket.socket]:
    """A descriptor of our own: the transport's cannot be watched."""
    second = socket.socket(sock.family, sock.type, sock.proto, os.dup(sock.fileno()))
    second.setblocking(False)
    try:
        yield second
    finally:
        second.close()


async def _descriptor(over: socket.socket) -> tuple[socket.socket, bytes]:
    loop = asyncio.get_running_loop()
    while True:
        try:
            head, ancillary, _, _ = over.recvmsg(_SIZE.size, socket.CMSG_SPACE(_FD_BYTES), socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            readable = loop.create_future()
            loop.add_reader(over.fileno(), _wake, readable)
            try:
                await readable
            finally:
                loop.remove_reader(over.fileno())
            continue
        return _only(_descriptors(ancillary)), head


def _wake(readable: asyncio.Future[None]) -> None:
    if not readable.done():  # cancelled in the same turn
        readable.set_result(None)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """All of them: the room for one is padded, and a second one fits in."""
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    return list(found)


def _only(descriptors: list[int]) -> socket.socket:
    """The one connected TCP socket that came; what else came is closed and raises ConnectionAbortedError."""
    if len(descriptors) == 1 and stat.S_ISSOCK(os.fstat(descriptors[0]).st_mode):
        sock = socket.socket(fileno=descriptors[0])
        if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
            return sock
        sock.close()
    else:
        for number in descriptors:
            os.close(number)
    raise ConnectionAbortedError(f"{len(descriptors)} descriptors came where a client's socket should have")


async def _exactly(over: socket.socket, count: int) -> bytes:
    loop, parts = asyncio.get_running_loop(), bytearray()
    while len(parts) < count:
        part = await loop.sock_recv(over, count - len(parts))
        if not part:
            raise ConnectionResetError("the sender went away")
        parts += part
    return bytes(parts)

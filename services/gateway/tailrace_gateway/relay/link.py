"""A non-blocking stream socket of the relay.

It reads into a shared buffer, hands the bytes on at once, and writes at once; what the other socket does not take stays
in that buffer until it is sent, and meanwhile nothing more is read. So a connection holds at most one buffer
a direction, and an idle one holds none; buffers.py bounds those of all connections. asyncio's transports would copy or
keep every piece instead (dataplane.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import TypeAlias

from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.transport.read_events import ReadEvents
from tailrace_gateway.relay.buffers import BUFFER_BYTES, LITTLE_BYTES, MOST_LENT, Buffer, BufferPool

StreamSocket: TypeAlias = socket.socket | EncryptedSocket

# Why a link does not read; it reads when none of these is set.
PEER = 1  # what was read cannot be passed on yet
MUTED = 2  # over quota (KIP-219)
HELD = 4  # a request is being answered elsewhere and enough is waiting behind it
ENDED = 8  # the other side has finished sending
UNSENT = 16  # it does not take its answers
MEMORY = 64  # there is no room for the request that has begun
KEPT = 32  # answers that wait behind the node's have become too many


class Link:
    """Subclasses say what follows from bytes (`received`), an end (`ended`), a failure (`failed`), room (`drained`)."""

    def __init__(self, sock: StreamSocket, pool: BufferPool) -> None:
        self.loop = asyncio.get_running_loop()
        self.sock = sock
        self.pool = pool
        self.tail = b""  # read, not consumed yet
        self.outbox: deque[bytes | memoryview] = deque()
        self.pauses = 0
        self.closed = False
        self.received_bytes = 0
        self.sent_bytes = 0
        self._fd = sock.fileno()
        self._lender: Buffer | None = None
        self.events = ReadEvents(self._fd, self._readable)

    # -- what a subclass answers ----------------------------------------------------------------------------------

    def received(self, buffer: Buffer, end: int) -> int:
        """Takes bytes 0..end of the buffer and returns how many it consumed."""
        raise AssertionError("a link is always a client's or a node's")

    def ended(self) -> None:
        """The other side has finished sending."""

    def failed(self, error: OSError) -> None:
        """The socket broke."""

    def drained(self) -> None:
        """Everything written has left."""

    # -- reading --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._watch()

    def pause(self, why: int) -> None:
        self.pauses |= why
        self.events.stop()

    def resume(self, why: int) -> None:
        self.pauses &= ~why
        self._watch()

    def _watch(self) -> None:
        if not self.pauses and not self.closed:
            self.events.start()

    def _readable(self) -> None:
        """One read behind what is kept."""
        buffer = self.pool.take()
        into, kept = buffer.view, len(self.tail)
        if kept:
            into[:kept] = self.tail
            into = into[kept:]
        if self.pool.lent >= MOST_LENT:
            into = into[:LITTLE_BYTES]
        try:
            count = self.sock.recv_into(into)
        except (BlockingIOError, InterruptedError):
            self.pool.give(buffer)
            return
        except OSError as error:
            self.pool.give(buffer)
            self.failed(error)
            return
        if count:
            self.received_bytes += count
            self._feed(buffer, kept + count)
            return
        self.pool.give(buffer)
        self.ended()

    def rescan(self) -> None:
        """Looks again at what was read but not consumed."""
        if self.tail and not self.closed:
            buffer = self.pool.take()
            kept = len(self.tail)
            buffer.view[:kept] = self.tail
            self._feed(buffer, kept)

    def _feed(self, buffer: Buffer, end: int) -> None:
        consumed = self.received(buffer, end)
        if consumed < end:
            self.tail = bytes(buffer.view[consumed:end])
            assert len(self.tail) < BUFFER_BYTES or self.pauses or self.closed
        else:
            self.tail = b""
        self.pool.give(buffer)

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview, lender: Buffer | None = None) -> None:
        """Sends now what the socket takes and keeps the rest in the outbox, a view in its buffer `lender`."""
        if self.closed:
            return
        if not self.outbox:
            try:
                sent = self.sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self.failed(error)
                return
            self.sent_bytes += sent
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self.loop.add_writer(self._fd, self._writable)
        if lender is None or self._lender is lender:
            self.outbox.append(data)
        elif self._lender is None and self.pool.lent < MOST_LENT:
            self._lender = lender
            self.pool.lend(lender)
            self.outbox.append(data)
        else:
            self.outbox.append(bytes(data))

    def _writable(self) -> None:
        outbox = self.outbox
        try:
            while outbox:
                first = outbox[0]
                sent = self.sock.send(first)
                self.sent_bytes += sent
                if sent < len(first):
                    outbox[0] = memoryview(first)[sent:]
                    return
                outbox.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.failed(error)
            return
        self.loop.remove_writer(self._fd)
        self._return_buffer()
        self.drained()

    def _return_buffer(self) -> None:
        lender, self._lender = self._lender, None
        if lender is not None:
            self.pool.give_back(lender)

    def exchange_socket(self, sock: socket.socket) -> StreamSocket:
        """Goes on over another socket and returns the one before, still open. Nothing may be unsent."""
        assert not self.outbox
        self.events.close()
        before = self.sock
        self.sock, self._fd, self.tail = sock, sock.fileno(), b""
        self.events = ReadEvents(self._fd, self._readable)
        self._watch()
        return before

    def close(self) -> None:
        """Closes the socket; what is still in the outbox is dropped."""
        if self.closed:
            return
        self.closed = True
        self.events.close()
        if self.outbox:
            self.loop.remove_writer(self._fd)
            self.outbox.clear()
        self._return_buffer()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

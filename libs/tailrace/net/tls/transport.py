"""asyncio's transport over an EncryptedSocket, for the connections of a broker's own listener.

Only what tailrace.net.connection asks of a transport. Not asyncio's own TLS: admission and the bounds of a handshake
come before it, and a gateway's relay, which has no transports, uses the same socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Iterable
from typing import Any

from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.transport.writing import in_few_buffers

_HIGH_WATER_BYTES = 65_536
_LOW_WATER_BYTES = 16_384
_READS_A_TURN = 4
# Encrypted at a turn for one client that takes everything at once: a megabyte takes a millisecond, or two.
_TURN_BYTES = 1_048_576
# For so long a client may take nothing of the answers before the end.
_LINGER_MS = 10_000.0


class EncryptedTransport(asyncio.Transport):
    """`start` hands it to its protocol; reading begins then."""

    def __init__(self, sock: EncryptedSocket, principal: str | None, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._fd = sock.fileno()
        self._protocol = protocol
        self._extra: dict[str, object] = {
            "socket": sock.plain,
            "peername": sock.plain.getpeername(),
            "sockname": sock.plain.getsockname(),
            "sslcontext": sock.context,
            "principal": principal,
        }
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._writing_paused = False
        self._watches_writing = False
        self._reading = False
        self._reads_soon = False
        self._wanted = True  # whether the protocol takes bytes
        self._ended = False
        self._closing = False
        self._lost = False

    def start(self) -> None:
        """The protocol's connection_made, then what came with the handshake."""
        self._protocol.connection_made(self)
        self._watch()

    # -- reading --------------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        self._wanted = False
        self._unwatch()

    def resume_reading(self) -> None:
        self._wanted = True
        self._watch()

    def _watch(self) -> None:
        if self._wanted and not self._reading and not self._closing and not self._ended:
            self._reading = True
            self._loop.add_reader(self._fd, self._readable)
            if self._sock.more:
                self._read_soon()

    def _unwatch(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _read_soon(self) -> None:
        """Once at a turn of the event loop, however often it is asked for."""
        if not self._reads_soon:
            self._reads_soon = True
            self._loop.call_soon(self._more)

    def _more(self) -> None:
        self._reads_soon = False
        if self._reading and self._sock.more:
            self._read_some()

    def _readable(self) -> None:
        if not self._reads_soon:  # else this turn has its share
            self._read_some()

    def _read_some(self) -> None:
        for _ in range(_READS_A_TURN):
            if not self._read() or not self._reading or not self._sock.more:
                break
        if self._reading and self._sock.more:
            self._read_soon()

    def _read(self) -> bool:
        """Whether something came."""
        try:
            count = self._sock.recv_into(memoryview(self._protocol.get_buffer(-1)))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._fail(error)
            return False
        if count:
            self._protocol.buffer_updated(count)
            return True
        self._ended = True
        self._unwatch()
        if not self._protocol.eof_received():
            self.close()
        return False

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keeps what does not leave at once, without a copy, as uvloop does: nobody may change it any more."""
        if self._closing or not len(data):
            return
        self._keep(data)
        if not self._watches_writing:
            self._push()
        self._pause_if_full()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._closing:
            return
        for buffer in in_few_buffers(list(list_of_data)):
            if len(buffer):
                self._keep(buffer)
        if not self._watches_writing:
            self._push()
        self._pause_if_full()

    def _keep(self, data: bytes | bytearray | memoryview) -> None:
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)

    def _push(self) -> None:
        """Sends what the socket takes, and a bounded part of much: the rest in other turns of the event loop."""
        unsent, left = self._unsent, _TURN_BYTES
        try:
            while unsent and left > 0:
                sent = self._sock.send(unsent[0])
                self._unsent_bytes -= sent
                left -= sent
                if sent < len(unsent[0]):
                    unsent[0] = unsent[0][sent:]
                    break
                unsent.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
            return
        self._watch_writing(bool(unsent))

    def _watch_writing(self, wanted: bool) -> None:
        if wanted != self._watches_writing:
            self._watches_writing = wanted
            if wanted:
                self._loop.add_writer(self._fd, self._writable)
            else:
                self._loop.remove_writer(self._fd)

    def _pause_if_full(self) -> None:
        if self._unsent_bytes > _HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def _writable(self) -> None:
        self._push()
        if self._lost:
            return
        if self._writing_paused and self._unsent_bytes <= _LOW_WATER_BYTES:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._end(None)

    def can_write_eof(self) -> bool:
        """TLS has no end of one side alone."""
        return False

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    # -- the end --------------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> object:
        return self._extra.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Reads no more; what was written leaves first."""
        if self._closing:
            return
        self._closing = True
        self._unwatch()
        if self._unsent:
            self._linger(self._unsent_bytes)
        else:
            self._end(None)

    def _linger(self, unsent_bytes: int) -> None:
        """Looks again while the client takes something of what is left."""
        self._loop.call_later(_LINGER_MS / 1000, self._lingered, unsent_bytes)

    def _lingered(self, unsent_bytes: int) -> None:
        if self._lost:
            return
        if self._unsent_bytes == unsent_bytes:
            self.abort()
        else:
            self._linger(self._unsent_bytes)

    def abort(self) -> None:
        """What has not left does not leave."""
        self._fail(None)

    def _fail(self, error: OSError | None) -> None:
        self._closing = True
        self._unwatch()
        self._watch_writing(False)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._end(error)

    def _end(self, error: OSError | None) -> None:
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._report, error)

    def _report(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            with contextlib.suppress(OSError):  # the client is gone
                self._sock.shutdown(socket.SHUT_RDWR)
            self._sock.close()

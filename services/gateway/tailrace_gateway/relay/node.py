"""Connections to the services behind: the preamble first, then the client's original frames.

NodeLink is the relay's other end, one per client connection, for the data APIs. Exchange is for the rest: one request
and its whole answer at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from tailrace.net.address import Address
from tailrace.net.authentication.client import log_in
from tailrace.net.authentication.secret import Secret
from tailrace.net.identity import Identity
from tailrace.net.preamble import preamble_of
from tailrace.net.requests.times import RequestTimes
from tailrace.net.session import ClientSession
from tailrace.net.transport.read_events import ReadEvents
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.connection import answer_size
from tailrace.wire.encode_buffer import received
from tailrace_gateway.relay.answers import Answers, ThrottledAnswer
from tailrace_gateway.relay.buffers import Buffer, BufferPool
from tailrace_gateway.relay.link import PEER, Link
from tailrace_gateway.relay.requests import Requests
from tailrace_gateway.relay.slots import Slots

CLIENT_ID = "tailrace-gateway"
_UNIX_SEND_BYTES = 1 << 20
_ANSWER_BYTES_MAX = 1 << 28
_READ_BYTES = 1 << 18


async def connect(address: Address, timeout_ms: float, secret: Secret | None) -> socket.socket:
    """A connected non-blocking socket, logged in where it is TCP; raises OSError (TimeoutError is one)."""
    family = socket.AF_UNIX if address.is_unix else socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    target = address.host if address.is_unix else (address.host, address.port)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await asyncio.get_running_loop().sock_connect(sock, target)
            if not address.is_unix:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if secret is not None:
                    await log_in(sock, secret)
        if address.is_unix:
            # The kernel's default takes less than one of our reads; every rest costs a wake-up.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_SEND_BYTES)
    except BaseException:
        sock.close()
        raise
    return sock


def preamble(identity: Identity) -> bytes:
    """The frame every upstream connection begins with."""
    return codec.encode_request(preamble_of(identity), 0, 0, CLIENT_ID)


class ClientOfNode(Protocol):
    """What a node's link needs of its client's: tailrace_gateway.clients.client.ClientLink."""

    gateway: Any
    node_id: int
    slots: Slots
    times: RequestTimes
    requests: Requests
    session: ClientSession

    def write(self, data: Any, buffer: Buffer | None = None) -> None:
        """Sends an answer's bytes, which may lie in a buffer."""

    def timed(self, work: Callable[[Buffer, int], int], buffer: Buffer, end: int) -> int:
        """Does the work and charges its time to the client."""

    def resume(self, reason: int) -> None:
        """Goes on with reading, as far as this was the reason to stop."""

    def refuse(self, why: str) -> None:
        """Closes the connection and says why."""

    def answers_passed(self) -> None:
        """Answers went out: what waited for room may go on."""

    def all_taken(self) -> None:
        """The broker has taken everything and closed."""

    def node_lost(self, why: str) -> None:
        """The node's end broke."""

    def close_if_done(self) -> None:
        """Closes a connection that is ending and owes nothing any more."""


class NodeLink(Link):
    """The node's end of one client connection's relay."""

    def __init__(self, sock: socket.socket, pool: BufferPool, client: ClientOfNode) -> None:
        super().__init__(sock, pool)
        self.client = client
        self.answers = Answers(client.slots, client.session)
        self._finishing = False

    def finish(self) -> None:
        """Says that no more will come, and lets the broker close: only then has it taken all acks=0 requests.

        Closed at once, the broker's next write (of the preamble's answer, say) fails, and what it has not read is lost.
        """
        if not self._finishing:
            self._finishing = True
            with contextlib.suppress(OSError):  # the broker is gone: the end is on its way
                self.sock.shutdown(socket.SHUT_WR)
            self.resume(PEER)

    def received(self, buffer: Buffer, end: int) -> int:
        client = self.client
        if client.session.untimed:
            return client.timed(self.received, buffer, end)
        owed = len(client.slots)
        try:
            consumed, out = self.answers.scan(buffer.view, end)
        except Malformed as wrong:
            client.refuse(str(wrong))
            return end
        except Exception:  # what was read must not be scanned again, nor be forgotten
            client.gateway.log.exception("answer failed", node=client.node_id)
            client.refuse("an answer could not be relayed, by a bug")
            return end
        for item in out:
            if type(item) is tuple:
                client.write(buffer.view[item[0] : item[1]], buffer)
            elif type(item) is ThrottledAnswer:
                client.write(throttled(item))
            else:
                client.write(item)
        if (count := owed - len(client.slots)) > 0:
            client.times.answered(count)
        client.answers_passed()
        return consumed

    def ended(self) -> None:
        self._over("the broker closed its connection")

    def failed(self, error: OSError) -> None:
        self._over(f"the broker's connection broke: {error}")

    def _over(self, why: str) -> None:
        if self._finishing:
            self.client.all_taken()
        else:
            self.client.gateway.suspects.broke(self.client.node_id)
            self.client.node_lost(why)

    def drained(self) -> None:
        self.client.resume(PEER)
        self.client.close_if_done()


def throttled(answer: ThrottledAnswer) -> bytes:
    """A Produce answer with its throttle_time_ms set; the only answer the gateway decodes and encodes again."""
    mark, frame = answer.mark, memoryview(answer.data)[4:]
    response = codec.decode_response(
        ApiKey.PRODUCE, mark.version, codec.response_body(ApiKey.PRODUCE, mark.version, frame)
    )
    response.throttle_time_ms = max(response.throttle_time_ms, mark.throttle_time_ms)
    return codec.encode_response(response, mark.version, codec.response_correlation_id(frame))


class Exchange:
    """One connection to a controller or coordinator for one client; a failure or a cancelled question closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._events = ReadEvents(sock.fileno(), self._readable)
        self._awaited: asyncio.Future[None] | None = None  # that something of an answer comes

    @classmethod
    async def open(cls, address: Address, identity: Identity, timeout_ms: float, secret: Secret | None) -> Exchange:
        """Connects and introduces the client; raises OSError."""
        exchange = cls(await connect(address, timeout_ms, secret))
        async with asyncio.timeout(timeout_ms / 1000):
            answer = await exchange.ask(preamble(identity))
        body = codec.response_body(ApiKey.PREAMBLE, 0, memoryview(answer)[4:])
        response = codec.decode_response(ApiKey.PREAMBLE, 0, body)
        if response.error_code:
            exchange.close()
            raise ConnectionRefusedError(f"{address} refused the preamble: error {response.error_code}")
        return exchange

    def alive(self) -> bool:
        """Whether the peer has kept the connection, as far as this host knows."""
        if self._sock.fileno() < 0:
            return False
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False  # closed, or bytes that nobody asked for

    async def ask(self, frame: bytes | memoryview, room: Callable[[int], Awaitable[None]] | None = None) -> memoryview:
        """Sends one frame and returns the answer's, size included; raises OSError when the connection is lost.

        room: is waited for with the size of the answer before that is received.
        """
        try:
            await self._loop.sock_sendall(self._sock, frame)
            head = received(4)
            await self._read(head)
            size = 4 + answer_size(head, _ANSWER_BYTES_MAX)
            if room is not None:
                await room(size)
            answer = received(size)
            answer[:4] = head
            await self._read(answer[4:])
            return answer
        except Malformed as malformed:
            self.close()
            raise ConnectionAbortedError(str(malformed)) from malformed
        except BaseException:
            self.close()
            raise

    async def _read(self, into: memoryview) -> None:
        """Fills it; a large answer is read to where it stays, since it takes long to copy."""
        while into:
            try:
                count = self._sock.recv_into(into[:_READ_BYTES])
            except (BlockingIOError, InterruptedError):
                await self._come()
                continue
            if not count:
                raise ConnectionResetError("the connection was closed before the answer was whole")
            into = into[count:]

    async def _come(self) -> None:
        self._awaited = self._loop.create_future()
        self._events.start()
        try:
            await self._awaited
        finally:
            self._events.stop()

    def _readable(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._events.woke()
            self._awaited.set_result(None)

    def detach(self) -> socket.socket:
        """The socket, for another use than questions; nothing may be on its way."""
        return self._sock

    def break_off(self) -> None:
        """Lets a waiting `ask` fail now."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._events.close()
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(ConnectionAbortedError("the connection was closed here"))
        with contextlib.suppress(OSError):
            self._sock.close()

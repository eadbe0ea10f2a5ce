"""A connection to another service: pipelined requests, answers matched by their order and correlation id.

The other service may be of another version of Tailrace. So a connection's first request is ApiVersions, and a request
goes out in the newest version that both sides know (KIP-35), as in Apache Kafka's NetworkClient.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from tailrace.net.address import Address
from tailrace.net.identity import Identity
from tailrace.net.transport.writing import write_all
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, Api, ApiKey
from tailrace.wire.connection import SIZE, ClientConnection
from tailrace.wire.encode_buffer import received
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage, ApiVersionsRequest

if TYPE_CHECKING:
    from tailrace.net.large import Large

_CORRELATION_ID = Struct(">i")
_SMALL_BYTES: Final = 4 * 1024  # no more than large.LARGE_BYTES
_FIRST_BUFFER_BYTES: Final = 4096  # most connections are idle most of the time
_BUFFER_BYTES: Final = 65_536
_Answered: TypeAlias = asyncio.Future[bytes | memoryview]  # a large frame is not copied
_Served: TypeAlias = dict[int, tuple[int, int]]  # api key -> lowest and highest version
# (bytes) -> returns when there is memory for a large answer of that size.
Room: TypeAlias = Callable[[int], Awaitable[None]]
_HELLO_VERSION = 0  # of ApiVersions: every version of Tailrace knows it


# (request, version) -> its answer, on a connection that is not authenticated yet.
Ask: TypeAlias = Callable[[ApiMessage, int], Awaitable[object]]


class SaslLogin(Protocol):
    """How a client shows which user or service it is: tailrace.net.sasl.login, tailrace.net.authentication.secret."""

    async def run(self, ask: Ask) -> None:
        """Raises AuthenticationRefused with what the server says."""


class UserLogin(SaslLogin, Protocol):
    """A user with its password, which REST takes, too."""

    @property
    def mechanism(self) -> str: ...
    @property
    def username(self) -> str: ...
    @property
    def password(self) -> str: ...


class ClientSettings(NamedTuple):
    """How a client of Kafka connects: TLS and the login, None where there is none."""

    tls: ssl.SSLContext | None = None
    login: UserLogin | None = None


PLAINTEXT: Final = ClientSettings()


class Disconnected(ConnectionError):
    """The peer could not be reached or went away before it answered; whether it acted is unknown."""


class NotLoggedIn(Disconnected):
    """The peer refuses the login, and says why."""


class UnservedError(Disconnected):
    """The peer serves no version of the request that we know: it is another version of Tailrace, or another role."""


class _Wire(asyncio.BufferedProtocol):
    """Hands each answer to the future that waits for it; a large one is received where it stays."""

    def __init__(self, address: Address, room: Room | None = None) -> None:
        self._address = address
        self._room = room
        self._waiting: asyncio.Future[None] | None = None  # for room
        self._buffer = memoryview(bytearray(_FIRST_BUFFER_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self.core: ClientConnection[_Answered] = ClientConnection()
        self.hello: _Answered | None = None
        self.served: _Served | None = None
        self.transport: Any = None
        self.lost = asyncio.get_running_loop().create_future()
        self._why = "closed the connection"

    @property
    def ended(self) -> bool:
        """Whether it is broken, or about to be: the transport knows of an end before connection_lost is called."""
        return self.lost.done() or self.transport.is_closing()

    def write(self, correlation_id: int, buffers: list[bytes | memoryview]) -> _Answered:
        """Sends a request; the future of its answer. Raises Disconnected: uvloop's closed transports refuse a write."""
        if self.ended:
            raise Disconnected(f"{self._address} {self._why}")
        future: _Answered = asyncio.get_running_loop().create_future()
        self.core.asked(correlation_id, future)
        if len(buffers) == 1:
            self.transport.write(buffers[0])
        else:
            write_all(self.transport, buffers)
        return future

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        while self.core.waiting:
            _, future = self.core.waiting.popleft()
            if not future.done():
                future.set_exception(Disconnected(f"{self._address} {self._why}"))
        if not self.lost.done():
            self.lost.set_result(None)
        if self._waiting is not None:
            self._waiting.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._large is not None:
                self._large_came(self._large, nbytes)
            else:
                self._filled += nbytes
                self._take_answers()
        except Malformed as malformed:
            self._why = str(malformed)
            self.transport.abort()

    def _large_came(self, large: memoryview, nbytes: int) -> None:
        self._large_filled += nbytes
        if self._large_filled == len(large):
            self._large = None
            _answer(self.core.take(large), large)

    def _take_answers(self) -> None:
        buffer, filled = self._buffer, self._filled
        pos, need = self.core.receive(buffer, filled, _answer)
        if 4 + need > _BUFFER_BYTES:
            self._begin_large(need, buffer[pos + 4 : filled])
            return
        if filled == len(buffer) < _BUFFER_BYTES or 4 + need > len(buffer):
            self._buffer = memoryview(bytearray(_BUFFER_BYTES))
            self._buffer[: filled - pos] = buffer[pos:filled]
        elif pos and pos < filled:
            buffer[: filled - pos] = bytes(buffer[pos:filled])
        self._filled = filled - pos

    def _begin_large(self, size: int, begun: memoryview) -> None:
        self._large = received(size)
        self._large[: len(begun)] = begun
        self._large_filled = len(begun)
        self._filled = 0
        if self._room is not None:
            self.transport.pause_reading()
            self._waiting = asyncio.ensure_future(self._room(size))
            self._waiting.add_done_callback(self._has_room)

    def _has_room(self, waited: asyncio.Future[None]) -> None:
        self._waiting = None
        if not (waited.cancelled() or self.ended):
            self.transport.resume_reading()


def _answer(future: _Answered, frame: bytes | memoryview) -> None:
    if not future.done():  # else nobody waits any more
        future.set_result(frame)


def _seen(answered: _Answered) -> None:
    """The failure of a request that no caller waits for is no error of the event loop."""
    if not answered.cancelled():
        answered.exception()


def _correlation_id(buffers: list[bytes | memoryview]) -> int:
    """Of a request: eight bytes after the beginning of its size, which may be alone in the first buffer."""
    alone = len(buffers[0]) == SIZE.size
    (correlation_id,) = _CORRELATION_ID.unpack_from(buffers[alone], 4 if alone else 8)
    return int(correlation_id)


def agreed(api: Api, served: _Served, address: Address) -> int:
    """The newest version of an API that we and the peer know; raises UnservedError where there is none."""
    low, high = served.get(api.key, (0, -1))
    version = min(high, api.max_version)
    if version < max(low, api.min_version):
        theirs = f"in versions {low} to {high}" if high >= low else "not at all"
        why = "upgrade this service" if high >= low > api.max_version else "that service is older, or has another role"
        raise UnservedError(
            f"{address} serves {api.key.name} {theirs}, this version of Tailrace needs {api.min_version} to "
            f"{api.max_version}: {why}"
        )
    return version


class Client:
    """Connects at the first request and again after a loss; nothing is sent twice."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        identity: Identity | None = None,
        login: SaslLogin | None = None,
        tls: ssl.SSLContext | None = None,
        room: Room | None = None,
    ) -> None:
        """login: of an address that is served with SASL, once for each connection; a Unix socket's is not.

        tls: of a client's address that is served over TLS.
        room: is waited for with the size of a large answer before that is received.
        """
        self.address = address
        self._client_id = client_id
        self._identity = identity
        self._tls = tls
        self._room = room
        self._login = login
        self._wire: _Wire | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()
        self._correlation_id = 0
        self._large: Large | None = None  # made when it is needed: a short command does without the module

    async def connect(self, timeout_ms: float = 5000) -> None:
        """Connects if it is not; raises Disconnected or TimeoutError."""
        async with asyncio.timeout(timeout_ms / 1000):
            await self._connected()

    async def lost(self) -> None:
        """Returns when the present connection breaks (at once if there is none)."""
        if self._wire is not None:
            await asyncio.shield(self._wire.lost)

    async def ask(self, message: ApiMessage, *, timeout_ms: float, version: int | None = None) -> Any:
        """Sends one request and returns its response message; a thread decodes a large one.

        version: what this request needs; else the newest that both sides know. Raises Disconnected, UnservedError,
        TimeoutError (the answer is then dropped when it comes) or codec.Malformed.
        """
        key = message.API_KEY
        async with asyncio.timeout(timeout_ms / 1000):
            wire = await self._connected()
            if version is None:
                served = wire.served or await self._hear_served(wire)
                version = agreed(INTERNAL_APIS[key], served, self.address)
            future = self._send(wire, message, version)
            frame = await future
        if len(frame) < _SMALL_BYTES:
            return codec.decode_response(key, version, codec.response_body(key, version, frame))
        if self._large is None:
            from tailrace.net.large import Large

            self._large = Large()
        return await self._large.decode_answer(key, version, frame)

    async def ask_frame(self, frame: bytes | memoryview, *, timeout_ms: float) -> bytes | memoryview:
        """Sends somebody's whole request frame and returns the answer's, both without their sizes.

        The answer carries the frame's own correlation id. Raises Disconnected or TimeoutError.
        """
        size = SIZE.pack(len(frame))
        return await self._ask_buffers([size, frame] if len(frame) > _SMALL_BYTES else [size + frame], timeout_ms)

    async def ask_raw(self, frame: bytes, *, timeout_ms: float) -> bytes | memoryview:
        """Sends a request frame that begins with its size; returns the answer's without. Raises as ask_frame."""
        return await self._ask_buffers([frame], timeout_ms)

    async def _ask_buffers(self, buffers: list[bytes | memoryview], timeout_ms: float) -> bytes | memoryview:
        async with asyncio.timeout(timeout_ms / 1000):
            wire = await self._connected()
            return await wire.write(_correlation_id(buffers), buffers)

    @property
    def connected(self) -> bool:
        """Whether there is a connection that nothing is known to have broken."""
        return self._wire is not None and not self._wire.ended

    def take_over(self, transport: Any) -> None:
        """Goes on with a connection that was opened from the other side; the peer knows for whom this client speaks."""
        self._wire = wire = _Wire(self.address, self._room)
        wire.connection_made(transport)
        transport.set_protocol(wire)
        transport.resume_reading()

    def finish(self) -> None:
        """Says that nothing more will be asked than what waits for its answer, if the peer still wants to give that."""
        if self._wire is not None and self._wire.core.waiting and not self._wire.ended:
            self._wire.transport.write_eof()

    def abort(self) -> None:
        """Breaks the connection off; requests without an answer fail with Disconnected soon."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.transport.abort()

    async def close(self) -> None:
        """Closes the connection; requests without an answer fail with Disconnected."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.transport.close()
            await asyncio.shield(wire.lost)

    def _send(self, wire: _Wire, message: ApiMessage, version: int) -> _Answered:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = codec.encode_request(message, version, self._correlation_id, self._client_id)
        return wire.write(self._correlation_id, [frame])

    async def _hear_served(self, wire: _Wire) -> _Served:
        """What the peer says that it serves; asked once for each connection."""
        if wire.hello is None:
            wire.hello = self._send(wire, ApiVersionsRequest(), _HELLO_VERSION)
            wire.hello.add_done_callback(_seen)  # all that ask may have given up before the connection breaks
        frame = await asyncio.shield(wire.hello)
        if wire.served is None:
            body = codec.response_body(ApiKey.API_VERSIONS, _HELLO_VERSION, frame)
            answer = codec.decode_response(ApiKey.API_VERSIONS, _HELLO_VERSION, body)
            wire.served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        return wire.served

    async def _connected(self) -> _Wire:
        wire = self._wire
        if wire is not None and not wire.ended:
            return wire
        async with self._connecting:
            wire = self._wire
            if wire is not None and not wire.ended:
                return wire
            wire = await self._open()
            if self._login is not None and not self.address.is_unix:
                await self._log_in(wire, self._login)
            self._wire = wire
            if self._identity is not None:
                self._introduce(wire, self._identity)
            return wire

    async def _log_in(self, wire: _Wire, login: SaslLogin) -> None:
        """Raises NotLoggedIn; then the connection is closed."""
        from tailrace.access.refused import AuthenticationRefused  # of logins alone

        async def ask(message: ApiMessage, version: int) -> object:
            frame = await self._send(wire, message, version)
            key = message.API_KEY
            return codec.decode_response(key, version, codec.response_body(key, version, frame))

        try:
            await login.run(ask)
        except AuthenticationRefused as refused:
            wire.transport.abort()
            raise NotLoggedIn(str(refused)) from None
        except BaseException:
            wire.transport.abort()
            raise

    def _introduce(self, wire: _Wire, identity: Identity) -> None:
        from tailrace.net.preamble import preamble_of  # of services alone

        self._send(wire, preamble_of(identity), 0).add_done_callback(_seen)

    async def _open(self) -> _Wire:
        loop = asyncio.get_running_loop()
        address = self.address
        try:
            if address.is_unix:
                _, wire = await loop.create_unix_connection(lambda: _Wire(address, self._room), address.host)
            else:
                _, wire = await loop.create_connection(
                    lambda: _Wire(address, self._room), address.host, address.port, ssl=self._tls
                )
        except (OSError, UnicodeError) as refused:  # IDNA refuses a..b
            raise Disconnected(f"{address}: {refused}") from refused
        return wire

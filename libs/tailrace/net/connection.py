"""A connection of the listener that every role shares: frames in, handlers called, answers out in request order.

One request at a time per connection for ordinary handlers, as Apache Kafka does (it mutes the channel meanwhile); hot
handlers may be pipelined: they answer at once, leave a future, which the next request waits for, or a Promised slot,
which it does not. Bounds: one frame
of at most max_frame_bytes buffered, 1 MiB of answers (or a single larger one) before they are written, and no reading
while the client does not take them. Who is quiet for too long is closed (tailrace.net.limits.deadlines).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from struct import Struct
from typing import Any, Protocol

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.dispatch import ORDINARY, HotHandlers, Relay, Service, answer_frame, api_versions
from tailrace.net.identity import Identity, identity_of_socket
from tailrace.net.large import LARGE_BYTES, has_many_rows
from tailrace.net.limits.answer_memory import OWN_BYTES, of_rows
from tailrace.net.limits.deadlines import IDLE, Progress
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.preamble import identity_of
from tailrace.net.quotas.meter import UNMETERED
from tailrace.net.requests.times import RequestTimes
from tailrace.net.session import AuthenticationState, ClientSession
from tailrace.net.transport.answering import Answering
from tailrace.net.transport.event_budget import EventBudget
from tailrace.net.transport.request_turns import WEIGHT_SHIFT, RequestTurns, request_turns
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.connection import BUSY, CLOSED, LEAST_REQUEST_BYTES, MUTED, SIZE, UNTAKEN, Fate
from tailrace.wire.header import RequestHeader, parse_request_header, skip_request_header
from tailrace.wire.malformed import NotKafka, TooManyRows
from tailrace.wire.messages import PreambleRequest, PreambleResponse
from tailrace.wire.pieces import Answer, Piece

_DATA = frozenset({int(ApiKey.PRODUCE), int(ApiKey.FETCH)})
_KEY = Struct(">h")
_COMPLETE = AuthenticationState.COMPLETE
_HEAD_BYTES = 14  # size, api key, version, correlation id, length of the client id
_ID_AT = 8  # where the client id's field begins in a frame
_PRIVATE_FROM = 10_000  # api keys that no client may use, nor send through a relay
# Of a Unix socket: the kernel's default takes a fifth of a large answer, and every rest costs a wake-up on both sides.
_UNIX_SEND_BYTES = 1_048_576


class Listener(Protocol):
    """What accepted a connection: tailrace.net.server.Server."""

    service: Service
    hot: HotHandlers
    connections: set[Connection]
    refusals: SeldomWarning  # of what needs no login

    def opened(self, connection: Connection) -> None:
        """Counts a connection in, or closes it."""


class Connection(Answering):
    """One accepted socket. Views handed to hot handlers are valid until end_of_read returned."""

    def __init__(self, server: Listener, identity: Identity | None = None, unread: bytes = b"") -> None:
        service = server.service
        session = ClientSession(self, service.memory, identity, authorizer=service.authorizer)
        super().__init__(session.share, service.log, service.memory, service.max_frame_bytes)
        self.session = session
        self._server = server
        self._service = service
        self._unread = unread  # of a socket that another process has read from
        self.hot = server.hot  # what serves this client
        self._times = None if service.request_metrics is None else RequestTimes(service.request_metrics)
        self._task: asyncio.Task[None] | None = None
        self._parsing = False
        self._turns: RequestTurns  # of the loop that has the transport
        self._turn: EventBudget
        self._going_on = False  # whole frames wait for nothing but a later turn of the loop
        self._closes = False  # whatever is whole is handled now
        self._released = False  # somebody else reads from the transport
        self._known = identity is not None
        self.state: dict[str, object] = {}
        self.refused_batches: Any = None  # what Produce knows of batches it refused here, while it matters
        self.named: bytes | None = None  # the client id's field every request must carry; None: nobody minds

    # -- the transport's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._turns = request_turns()
        self._turn = self._turns.budget
        sock = transport.get_extra_info("socket")
        self.sends_files = sock is not None and transport.get_extra_info("sslcontext") is None
        if sock is not None and sock.family == socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_SEND_BYTES)
        elif sock is not None:
            self._service.buffers.set_on(sock)
        if not self._known:
            self.session.identify(identity_of_socket(transport.get_extra_info, self._service.listener))
        self._server.opened(self)
        if self._unread and not transport.is_closing():
            unread, self._unread = self._unread, b""
            self._take(unread)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._service.authentication is not None:
            self._service.authentication.ended(self, begun=self.received_bytes > 0)
        self.core.close()
        self._filled = 0
        self._shrink()
        self.session.end()
        self._turns.forget(self)
        if self._task is not None:
            self._task.cancel()
        self.core.slots.clear()
        if self._awaited is not None:
            self._awaited.cancel()
        if self._outbox is not None:
            self._outbox.close()
        if self._service.on_close is not None:
            self._service.on_close(self)

    def eof_received(self) -> bool:
        """The client sends no more: what it asked is answered first where the service wants that; else it is closed.

        Between services what waits for nothing is still handled: a gateway ends its side behind Produces with acks=0.
        """
        if not self._service.answers_after_end or self.core.stops & CLOSED:
            self._closes = True
            while self._going_on:
                self._turns.forget(self)
                self.go_on()
            return False
        self.core.ended = self._held = True
        if self._task is not None and not self._filled and self._service.on_end is not None:
            self._service.on_end(self)
        self._parse()
        return not self._transport.is_closing()

    # -- the end of it --------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Reads no more; closed once what is due has left."""
        self.core.ended = self._held = True
        self._filled = 0

    def authentication_changed(self) -> None:
        """Of a client that is not authenticated frames are small."""
        session, core = self.session, self.core
        core.max_frame_bytes = session.most_frame_bytes(self._service.max_frame_bytes)
        core.min_frame_bytes = 0 if session.raw_tokens else LEAST_REQUEST_BYTES

    def renamed(self, client_id: bytes) -> None:
        """A request came under another client id than `named`."""
        self.session.rename(client_id)

    def _end_if_done(self) -> None:
        """Ends a connection whose client has ended, once everything was answered.

        Called when all whole frames that may be handled have been.
        """
        if self._parsing or self._transport.is_closing() or self._sending_files or self._going_on:
            return
        fate = self.core.fate(self._filled)
        if fate is Fate.TORN:
            self._refuse(fate.value)
        elif fate is Fate.DONE:
            self.close()

    @property
    def progress(self) -> Progress:
        """How far it is, for the sweep over all connections."""
        core, unsent_bytes = self.core, self._unsent_bytes
        begun = bool(self._filled) and not core.ended and not self._share.waits and core.may_handle
        answer_pending = not core.ended and bool(core.slots or core.stops & (BUSY | MUTED))
        head = self._filled < _HEAD_BYTES
        return Progress(self.received_bytes, unsent_bytes, begun, head, bool(unsent_bytes), answer_pending)

    def give_up(self, why: str) -> None:
        """Closes a client that was waited for long enough, with one line unless it was merely idle."""
        if why != IDLE:
            self._refuse(why)
        if not self._unsent_bytes:
            self.close()
        else:
            self.abort()

    def give_way(self, why: str) -> None:
        """Closes a client that is too slow while others wait for memory."""
        self.give_up(why)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed, unsent or begun."""
        return not (self.core.slots or self.core.stops or self._filled or self._unsent_bytes)

    @property
    def closing(self) -> bool:
        """Whether the connection has ended or is about to."""
        return bool(self._transport.is_closing())

    @property
    def passes_sockets(self) -> bool:
        """Whether the other end is a process of this host that can hand an open socket over."""
        return bool(self._transport.get_extra_info("socket").family == socket.AF_UNIX)

    @property
    def socket(self) -> Any:
        """The socket as far as it may be passed on: its descriptor and family."""
        return self._transport.get_extra_info("socket")

    def release(self) -> Any:
        """The transport, for somebody else to read from; answers that are due still leave by this connection.

        Raises ApiError where bytes have come behind the request: nobody would take them for what they are.
        """
        if self._filled:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{self._filled} bytes came before the connection was released")
        self._released = self._held = True
        self._transport.pause_reading()
        self._server.connections.discard(self)
        self.session.end()  # connection_lost is not called any more
        return self._transport

    # -- frames ---------------------------------------------------------------------------------------------------

    def limit(self, hot: HotHandlers) -> None:
        """A quota limits the client: these hot handlers serve and charge it from the next request on."""
        self.hot = hot

    def unlimit(self) -> None:
        """No quota limits the client any more."""
        self.session.meter, self.hot = UNMETERED, self._server.hot

    def throttled(self) -> None:
        """The client is above a quota: nothing more of it is handled for that time, be it that it obeys or not."""
        if not self._transport.is_closing():
            self.core.stops |= MUTED
            self.session.mute()

    def mute(self, throttle_time_ms: int) -> None:
        """Handles no further request for so long; what comes stays in the buffer, then in the socket."""
        if not self._transport.is_closing():
            self.core.stops |= MUTED
            self.session.mute_for(throttle_time_ms)

    def unmuted(self) -> None:
        """The throttle time is over."""
        self.core.stops &= ~MUTED
        self._parse()

    def _awaited_came(self, awaited: asyncio.Future[list[Piece]]) -> None:
        self._answered_later(super()._awaited_came, awaited)

    def flush(self) -> None:
        """As the base has it; the time is the client's, too."""
        self._answered_later(super().flush)

    def _answered_later(self, work: Callable[..., None], *args: Any) -> None:
        """Sends what had to be waited for. Kafka charges its time as it does that of an answer given at once."""
        session = self.session
        if not session.untimed:
            work(*args)
            return
        session.timed(partial(work, *args))
        session.charge()

    def _parse(self) -> None:
        """Handles what may be handled now. What full slots or the end of a turn stopped goes on after others."""
        if self._parsing:
            return  # called back from a write below, which goes on by itself
        if self.session.untimed:
            self._parse_timed()
            return
        self._parsing = True
        if self._times is not None:
            self._times.begin()
        try:
            pos, need = self.core.receive(self._view, self._filled, self._frame, self._end_read)
            if pos:
                self._service.end_of_read()
        except codec.Malformed as malformed:
            self._service.end_of_read()
            self._refuse(str(malformed), self._server.refusals.say if isinstance(malformed, NotKafka) else None)
            return
        except Exception:  # a hot handler's bug: the frame must not be found here again
            self._service.log.exception("request failed")
            self._refuse("a request could not be answered, by a bug")
            return
        finally:
            self._parsing = False
        self._flush()
        self._compact(pos, need)
        left = not need and self._filled >= SIZE.size and self.core.may_handle
        if self._times is not None:
            self._times.end(handled=pos > 0, left=left)
        if left and not self._going_on:
            self._going_on = True
            self._turns.wait(self)
        core = self.core
        if self._held and self._filled < len(self._buffer) and self._may_read():
            self._held = False
            self._transport.resume_reading()
        if core.ended:
            self._end_if_done()

    def _parse_timed(self) -> None:
        """A look at what is no whole request yet is charged with the next one: it must not mute what is to come."""
        filled = self._filled
        self.session.timed(self._parse)
        if self._filled < filled:
            self.session.charge()

    def _end_read(self) -> None:
        """Many answers are there: they leave before the next request is handled."""
        self._service.end_of_read()
        self._flush()

    def go_on(self) -> None:
        """Its turn has come: whole frames that waited are handled."""
        self._going_on = False
        self._parse()

    def _may_read(self) -> bool:
        if self._share.waits:
            return False
        core = self.core
        return not (core.stops & (UNTAKEN | CLOSED) or core.ended or self._released or self._transport.is_closing())

    def _frame(self, frame: memoryview) -> bool:
        """Handles a request; True: not yet, its client has to wait first, or others have their turn."""
        session, turn = self.session, self._turn
        if turn.left < 0 and not (self._closes or session.is_service) and self._turns.over():
            return True
        turn.left -= 1 + (len(frame) >> WEIGHT_SHIFT)
        known = session.authentication is _COMPLETE
        times = self._times
        if not known and session.raw_tokens:
            if times is not None:
                times.pass_over()
            self._begin(self._run_token, bytes(frame))
            return False
        named = self.named
        if named is not None and frame[_ID_AT : _ID_AT + len(named)] != named:
            self._rename(frame)
        api_key, version, correlation_id, pos = skip_request_header(frame)
        if not known:
            session.take(api_key)
        if session.may_owe and api_key in _DATA and session.owes():
            self.throttled()
            return True
        hot = self.hot.get(api_key)
        if hot is not None:
            handler, first, last = hot
            if first <= version <= last:
                answer = handler(self, version, correlation_id, frame[pos:])
                if answer is not ORDINARY:
                    if times is not None:
                        times.handle(api_key, answers=answer is not None)
                    if answer is not None:
                        self._answer_hot(answer)
                    return False
        header = parse_request_header(frame)
        if not self._service.serves(header.api_key, header.api_version):
            self._unserved(header, frame)
            return False
        if times is not None:
            times.handle(api_key)
        if len(frame) < LARGE_BYTES:
            try:
                request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
            except TooManyRows as refused:
                self._begin(self._run_refused, header, refused)
            else:
                self._begin(self._run, header, request)
        else:
            self._begin(self._run_large, header, self.keep(frame[header.body_offset :]))
        return False

    def _rename(self, frame: memoryview) -> None:
        (size,) = _KEY.unpack_from(frame, _ID_AT) if len(frame) >= _ID_AT + _KEY.size else (0,)
        self.named = bytes(frame[_ID_AT : _ID_AT + _KEY.size + max(size, 0)])
        self.renamed(self.named[_KEY.size :])

    def _begin(self, work: Callable[..., Awaitable[None]], *given: Any) -> None:
        self.core.stops |= BUSY
        self._turn.woke()
        run: Coroutine[None, None, None] = self._run_guarded(work, *given)
        session = self.session
        if not session.meter.request_limited:
            self._task = asyncio.get_running_loop().create_task(run)
        else:
            self._task = asyncio.get_running_loop().create_task(session.timer.coroutine(session.meter.work_ms, run))
            self._task.add_done_callback(lambda _: session.charge())

    def _idle(self) -> None:
        """The ordinary request at hand is over."""
        self._task = None
        self._answered_kept()
        self.core.stops &= ~BUSY

    async def _run_guarded(self, work: Callable[..., Awaitable[None]], *given: Any) -> None:
        """A bug outside the handlers leaves nothing to answer with: the connection ends, and nobody waits forever."""
        try:
            await work(*given)
        except Exception:
            self._service.log.exception("request failed")
            self._idle()
            self._refuse("a request could not be answered, by a bug")
        except asyncio.CancelledError:
            self._idle()
            if not self.core.stops & CLOSED:  # by somebody else than this connection's end
                self._refuse("a request was cancelled")
            raise

    async def _run_relay(self, relay: Relay, frame: memoryview) -> None:
        try:
            answer = await relay(self, frame)
        except (ConnectionError, TimeoutError) as gone:
            self._idle()
            if self.core.ended:  # the gateway does not answer who has left
                self.close()
            else:
                self._refuse(str(gone) or "the gateway did not answer in time")
            return
        self._answered(answer)

    async def _run_large(self, header: RequestHeader, body: memoryview) -> None:
        """What takes long to decode is decoded elsewhere."""
        await self.room_for_rows(of_rows(len(body)))
        try:
            async with self._service.large.request(header.api_key, header.api_version, body) as request:
                if not has_many_rows(request):  # a JoinGroup of one large row may wait for very long
                    self._answers.give_back(self)
                frame = await self._frame_of(header, request)
        except TooManyRows as refused:
            await self._run_refused(header, refused)
            return
        except codec.Malformed as malformed:
            self._idle()
            self._refuse(str(malformed))
            return
        self._answered(frame)

    async def room_for_rows(self, size_bytes: int) -> None:
        """Returns when there is memory for the rows of a large request; a service does not wait for clients."""
        if not self.session.is_service:
            await self._answers.room(self, size_bytes)

    async def _run_refused(self, header: RequestHeader, refused: TooManyRows) -> None:
        """What has more rows than its API takes is answered with an error code, before any work."""
        await self._answers.room(self)  # it may be as large as the request
        answer = await self._service.large.refuse_rows(
            refused, header.api_key, header.api_version, header.correlation_id
        )
        self._answers.hold(self, len(answer))
        self._answered(answer)

    async def _run_token(self, token: bytes) -> None:
        """A token of SASL without a header (SaslHandshake v0)."""
        sasl = self._service.sasl
        assert sasl is not None
        try:
            answer = await sasl.raw_token(token, self.session)
        except codec.Malformed as refused:
            self._idle()
            self._refuse(str(refused))
            return
        self._answered(SIZE.pack(len(answer)) + answer)

    async def _run(self, header: RequestHeader, request: Any) -> None:
        self._answered(await self._frame_of(header, request))

    async def _frame_of(self, header: RequestHeader, request: Any) -> bytes | memoryview:
        context = Context(
            header.api_key, header.api_version, header.correlation_id, header.client_id, self, self._service.internal
        )
        return await answer_frame(self._service, request, context)

    def _answered(self, answer: Answer) -> None:
        self.core.slots.append(answer)
        self._idle()
        if (sum(map(len, answer)) if isinstance(answer, list) else len(answer)) > OWN_BYTES:
            self._flush()
            self._give_back_taken()
        self._parse()

    def _unserved(self, header: RequestHeader, frame: memoryview) -> None:
        if header.api_key == ApiKey.PREAMBLE and self._service.internal:
            self._preamble(header, frame)
        elif self._service.relay is not None and header.api_key < _PRIVATE_FROM:
            if self._times is not None:
                self._times.pass_over()  # the gateway counts it
            self._begin(self._run_relay, self._service.relay, self.keep(frame))
        elif header.api_key == ApiKey.API_VERSIONS and header.api_key in self._service.apis:
            if self._times is not None:
                self._times.handle(header.api_key)
            self.core.slots.append(api_versions(self._service, header.api_version, header.correlation_id))
        else:
            raise codec.Malformed(f"api key {header.api_key} version {header.api_version} is not served here")

    def _preamble(self, header: RequestHeader, frame: memoryview) -> None:
        request: PreambleRequest = codec.decode_request(ApiKey.PREAMBLE, 0, frame[header.body_offset :])
        self.session.identify(identity_of(request))
        self.core.slots.append(codec.encode_response(PreambleResponse(error_code=0), 0, header.correlation_id))

    def _refuse(self, why: str, say: Callable[..., None] | None = None) -> None:
        """Closes with one line that says who and why; answers already due go out first.

        say: writes the line, where it is not to be one for each client.
        """
        if say is None and self.session.authentication is not _COMPLETE:
            say = self._server.refusals.say
        say = say or partial(self._service.log.warning, "connection closed")
        say(why=why, client=self.session.identity.client)
        self._filled = 0
        self._flush()
        if self._sending_files:
            self.core.close()
            self._held = True
            self.core.slots.clear()
            self._transport.pause_reading()
        else:
            self.close()

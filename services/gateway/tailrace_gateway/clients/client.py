"""A client's connection: its relay, its place among the answers, and the ways it can end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from functools import partial

from tailrace.net.address import Address
from tailrace.net.identity import Identity
from tailrace.net.limits.deadlines import IDLE, Progress
from tailrace.net.limits.request_memory import OWN_BYTES
from tailrace.net.requests.times import RequestTimes
from tailrace.net.session import AuthenticationState, ClientSession
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.malformed import NotKafka, TooManyRows
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.buffers import Buffer
from tailrace_gateway.relay.link import ENDED, HELD, KEPT, MEMORY, MUTED, PEER, UNSENT, Link, StreamSocket
from tailrace_gateway.relay.node import Exchange, NodeLink
from tailrace_gateway.relay.refused_batches import RefusedBatches
from tailrace_gateway.relay.requests import Frame, Requests
from tailrace_gateway.relay.slots import Slots

# Kept behind a request that is being answered elsewhere; until then reading goes on, to notice a client that left.
_BEHIND_BYTES = 65_536
# Of answers that wait behind the node's: a Fetch may wait for long, and what follows is answered at once.
_KEPT_BYTES = 1_048_576
# Nothing is scanned meanwhile; each of them looks again at what was read when it ends.
_WAITS = MUTED | UNSENT | KEPT
# What a member that has left is not waited for with: the others would wait for it through a whole rebalance.
_FOR_MEMBERS = frozenset({int(ApiKey.JOIN_GROUP), int(ApiKey.SYNC_GROUP)})
_TORN = "the connection ended in the middle of a frame"


def _uncounted(connection: object) -> None:
    """Of a broker's connection: its client is counted where the socket is."""


class ClientLink(Link):
    """One accepted socket on the port of one node."""

    def __init__(self, sock: StreamSocket, gateway: Gateway, identity: Identity) -> None:
        super().__init__(sock, gateway.pool)
        self.gateway = gateway
        meter_of, clock, authorizer = gateway.meters_of(identity), gateway.clock, gateway.authorizer
        self.session = ClientSession(self, gateway.memory, identity, meter_of, clock, authorizer)
        self.session.on_throttle = gateway.count_throttle
        self.node_id = identity.node_id
        self.slots = Slots()
        self.times = RequestTimes(gateway.request_metrics)
        limits = gateway.limits
        self.requests = Requests(
            gateway.table,
            self.slots,
            self.session,
            limits.max_frame_bytes,
            limits.max_collected_bytes,
            self.times,
        )
        self.node: NodeLink | None = None
        # The client's socket while the broker serves it and relays here what is not its own: kept open to close it for
        # a broker that cannot.
        self.lent: StreamSocket | None = None
        self.exchanges: dict[Address, Exchange] = {}
        self.owner: tuple[str, int, int] | None = None  # (topic, shard, shard epoch) whose owner is answering
        self.owner_address: Address | None = None
        self.refused_batches = RefusedBatches()  # by the gateway itself, while its node was away
        self.on_closed: Callable[[object], None] = _uncounted
        self._task: asyncio.Task[None] | None = None

    @property
    def handed_over(self) -> bool:
        """Whether the client's socket is its broker's."""
        return self.lent is not None

    @property
    def busy(self) -> bool:
        """Whether an answer is owed."""
        return bool(self.slots) or self._task is not None or bool(self.pauses & MUTED)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed, unsent or begun; of a client that was handed over its broker knows."""
        return not (self.busy or self.handed_over or self.outbox or self.tail) and self.requests.between_frames

    @property
    def may_be_handed_over(self) -> bool:
        """Whether the broker can go on from here, quotas and all: nothing is owed, unsent or begun."""
        if self.closed or self.handed_over or self.sock.family == socket.AF_UNIX:
            return False
        if isinstance(self.sock, EncryptedSocket):  # its keys are here
            return False
        if self.slots or self.outbox or self.pauses & (MUTED | ENDED) or not self.requests.between_frames:
            return False
        return not self.session.throttle_time_ms

    @property
    def waits_for_bytes(self) -> bool:
        """Whether the client has begun a frame and we wait for the rest of it."""
        if self._task is not None or self.pauses:
            return False
        return bool(self.tail) or not self.requests.between_frames

    # -- from the client ------------------------------------------------------------------------------------------

    def received(self, buffer: Buffer, end: int) -> int:
        requests = self.requests
        if self.session.untimed:
            return self.timed(self.received, buffer, end)
        consumed = 0
        self.times.begin()
        if self._task is None and not self.pauses & (UNSENT | KEPT):
            try:
                consumed, out = requests.scan(buffer.view, end)
            except NotKafka as wrong:
                self.refuse(str(wrong), self.gateway.refusals.say)
                return end
            except Malformed as wrong:
                self.refuse(str(wrong))
                return end
            except Exception:  # what was read must not be scanned again, nor be forgotten
                self.gateway.log.exception("request failed")
                self.refuse("a request could not be routed, by a bug")
                return end
            for item in out:
                if type(item) is tuple:
                    if self.node is not None:
                        self.node.write(buffer.view[item[0] : item[1]], buffer)
                elif type(item) is Frame:
                    self._start(self._answer_timed(item) if self.session.timer.running else self._answer(item))
            self.times.end()
            if self.closed:
                return end
            if self.node is not None and self.node.outbox:
                self.pause(PEER)
            if self.session.to_be_muted:
                self._mute_between_frames()
            if requests.node_wanted:
                requests.node_wanted = False
                self._start(self._open_node())
        collecting_bytes = requests.collecting_bytes
        if collecting_bytes > OWN_BYTES and not self.session.share.take(collecting_bytes):
            self.pause(MEMORY)
        if end - consumed > _BEHIND_BYTES and (self._task is not None or self.pauses & _WAITS):
            self.pause(HELD)
        return consumed

    def ended(self) -> None:
        """The client sends no more: what it asked is answered, then the connection is closed."""
        if self.lent is not None:  # the client left or has ended its side, or its broker died
            self.gateway.suspects.broke(self.node_id)
            self.lent.close()  # not shut down: a broker that lives still has to pass on what we answer
            if not self.busy:
                self.close()
                return
        held = self.requests.held
        if self.owner is not None and held is not None and held.key in _FOR_MEMBERS:
            self.close()
            return
        self.pause(ENDED)
        self.close_if_done()

    def finish(self) -> None:
        """The gateway stops: what was asked is answered, nothing more is read; brokers keep the clients they have."""
        if self.lent is not None:
            self.lent.close()
        if self.requests.between_frames:
            self.tail = b""
            self.pause(ENDED)
            self.close_if_done()
        else:
            self.close()

    def failed(self, error: OSError) -> None:
        self.close()

    def drained(self) -> None:
        if self.node is not None:
            self.node.resume(PEER)
        if self.pauses & UNSENT:
            self._go_on()
        self.close_if_done()

    async def room_for_answer(self, size_bytes: int) -> None:
        """Returns when there is memory for an answer of so many bytes."""
        await self.gateway.memory.answers.room(self, size_bytes)

    def close_if_done(self) -> None:
        """After the client's end: closes once every whole request was answered; a torn one is the reason then."""
        if not self.pauses & ENDED or self._task is not None or self.pauses & _WAITS:
            return
        if len(self.slots) > self.requests.torn_slots or self.outbox or (self.node and self.node.outbox):
            return
        if self.node is not None and self.requests.unanswered_sent:
            self.node.finish()
        else:
            self.all_taken()

    def all_taken(self) -> None:
        """After the client's end: nothing is owed, and the node has all that was for it."""
        if self.tail or not self.requests.between_frames:
            self.refuse(_TORN)
        else:
            self.close()

    def timed(self, work: Callable[[Buffer, int], int], buffer: Buffer, end: int) -> int:
        """Does the work for a client with a request_percentage, and charges its time once.

        A look at bytes that are not a request yet is charged with the next request: it must not mute what is to come.
        """
        consumed = self.session.timed(partial(work, buffer, end))
        if consumed:
            self.session.charge()
        return consumed

    def _answer_timed(self, frame: Frame) -> Coroutine[None, None, None]:
        """The same for work that waits; charged when it is done."""
        session = self.session
        return session.timer.coroutine(session.meter.work_ms, self._answer(frame))

    def throttled(self) -> None:
        """Reads nothing for the time that was told, be it that the client obeys or not (KIP-219)."""
        if not self.closed:
            self._mute_between_frames()

    def _mute_between_frames(self) -> None:
        """A frame that has begun passes whole before the connection is muted."""
        if self.requests.between_frames:
            self.pause(MUTED)
            self.session.mute()

    def unmuted(self) -> None:
        """The throttle time is over."""
        self.resume(MUTED | HELD)
        self.rescan()
        self.close_if_done()

    # -- from the node --------------------------------------------------------------------------------------------

    def answers_passed(self) -> None:
        """Called after every read from the node."""
        if self.closed:
            return
        if self.outbox and self.node is not None:
            self.node.pause(PEER)
        if self.session.to_be_muted:
            self._mute_between_frames()
        if not self.pauses:
            return
        if self.pauses & KEPT and self.slots.kept_bytes <= _KEPT_BYTES:
            self._go_on()
        self.close_if_done()

    def node_lost(self, why: str) -> None:
        """The node's connection is gone: what it owed cannot be known any more, so this connection ends with it.

        Without anything owed only the upstream connection goes; the next request opens another.
        """
        node = self.node
        if self.handed_over:
            self.refuse(why)
            return
        if node is None:
            return
        answer_pending = self.slots.marks() or not self.requests.between_frames or not node.answers.between_frames
        if answer_pending or self.requests.unanswered_sent:
            self.refuse(f"{why} and owed {self.slots.marks()} answers")
            return
        node.close()
        self.node = None
        self.requests.node_open = False
        self.resume(PEER)

    def adopt_node(self, node: NodeLink) -> None:
        """From now on the node's requests are relayed."""
        self.node = node
        self.requests.node_open = True
        self.requests.node_refused = False
        self.requests.unanswered_sent = False
        node.start()

    def hand_over(self, sock: socket.socket, rest: bytes) -> None:
        """From now on the broker is this connection's client; `rest` of what was unread has to follow."""
        self.requests.node_wanted = False
        lent = self.sock
        self.lent = lent  # before the new socket is watched
        self.session.forget_expiry()
        self.exchange_socket(sock)
        if rest:
            self.write(rest)

    async def _open_node(self) -> None:
        if await self.gateway.offer(self):
            return
        node = await self.gateway.open_node(self)
        if node is None:
            self.requests.node_refused = True
        else:
            self.adopt_node(node)

    def introduced(self, identity: Identity) -> None:
        """An internal connection says for whom it speaks."""
        self.session.identify(identity)
        self.session.meter_by(self.gateway.meters_of(identity))
        self.node_id = identity.node_id
        self.requests.table = self.gateway.table
        self.requests.forget_the_last()

    def authentication_changed(self) -> None:
        """Of a client that is not authenticated frames are small; an authenticated one has its own meters."""
        session, requests, most_bytes = self.session, self.requests, self.gateway.limits.max_frame_bytes
        requests.max_frame_bytes = session.most_frame_bytes(most_bytes)
        requests.forget_the_last()
        if session.authentication is AuthenticationState.COMPLETE:
            session.meter_by(self.gateway.meters_of(session.identity))

    # -- from elsewhere -------------------------------------------------------------------------------------------

    async def _answer(self, frame: Frame) -> None:
        try:
            answer = await self.gateway.answer(frame, self)
        except TooManyRows as refused:
            large, answers = self.gateway.large, self.gateway.memory.answers
            await answers.room(self)  # it may be as large as the request
            answer = await large.refuse_rows(refused, frame.key, frame.version, frame.correlation_id)
            answers.hold(self, len(answer))
        if answer is not None:
            self.slots.fill(frame.slot, answer)
        self.requests.answered()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        assert self._task is None
        self.events.woke()
        self._task = self.loop.create_task(work)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self.session.share.held_bytes:
            self.session.share.keep(0)
        if self.closed:
            return
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self.refuse("a request was cancelled")
        elif isinstance(error, Malformed):
            self.refuse(str(error))
        elif error is not None:
            self.gateway.log.error("request failed", exc_info=error, client_id=self.session.client_id)
            self.close()
        else:
            self.session.charge()
            answers = self.slots.release()
            for answer in answers:
                self.write(answer)
            self.times.answered(len(answers))
            self._go_on()
            self.close_if_done()

    def _go_on(self) -> None:
        """Handles what lies behind an answer of ours once that has left: a client that takes none asks no more."""
        if self.outbox:
            if self.node is not None:
                self.node.pause(PEER)
            self.pause(UNSENT)
        elif self.slots.kept_bytes > _KEPT_BYTES:
            self.pause(KEPT)
        else:
            self.gateway.memory.answers.give_back(self)
            self.resume(HELD | KEPT | UNSENT)
            self.rescan()

    # -- memory for a request that is collected ----------------------------------------------------------------------

    def memory_granted(self) -> None:
        """There is room for the request that has begun."""
        self.resume(MEMORY)

    def reclaim_memory(self) -> None:
        """Nothing is kept here that is not used."""

    def torn_bytes(self) -> int:
        """How much of a request has come that is being collected; -1: of none."""
        return self.requests.collected_bytes

    def give_way(self, why: str) -> None:
        """Others wait for the memory that this client fills too slowly."""
        self.refuse(why)

    # -- time without progress ------------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """How far it is, for the sweep over all connections."""
        # A broker sees by itself whether a client that was handed over to it is idle.
        answer_pending, begun, head = self.busy or self.handed_over, self.waits_for_bytes, self.requests.between_frames
        return Progress(self.received_bytes, self.sent_bytes, begun, head, bool(self.outbox), answer_pending)

    def give_up(self, why: str) -> None:
        """Closes a client that was waited for long enough, with one line unless it was merely idle."""
        if why == IDLE:
            self.close()
        else:
            self.refuse(why)

    # -- the end --------------------------------------------------------------------------------------------------

    def refuse(self, why: str, say: Callable[..., None] | None = None) -> None:
        """Closes with one line that says who and why; say: writes it, where it is not to be one for each client."""
        if not self.closed:
            if say is None and self.session.authentication is not AuthenticationState.COMPLETE:
                say = self.gateway.refusals.say
            (say or partial(self.gateway.log.warning, "connection closed"))(
                why=why,
                client=self.session.identity.client,
                client_id=self.session.client_id.decode("utf-8", "replace"),
                software=f"{self.session.software_name} {self.session.software_version}".strip(),
                node=self.node_id,
            )
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.requests.drop()  # the connection itself may be in a cycle, and free much later
        self.session.end()
        if self.lent is not None:
            if self.lent.fileno() >= 0:
                with contextlib.suppress(OSError):
                    self.lent.shutdown(socket.SHUT_RDWR)
            self.lent.close()
        if self._task is not None and self._task is not asyncio.current_task(self.loop):
            self._task.cancel()
        if self.node is not None:
            self.node.close()
        for exchange in self.exchanges.values():
            exchange.close()
        self.gateway.closed(self)
        self.on_closed(self)

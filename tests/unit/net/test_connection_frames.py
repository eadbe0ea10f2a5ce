"""Whatever comes, in whatever pieces: every whole frame is handled once, in order, and what waits for nothing goes on.

Or the connection is closed with a reason that is logged. Frames are of every kind that a handler may make of them, the
client may stop to take answers, or end its side at any byte.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import closing
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory_streams import MemoryTransport, VirtualLoop, cancel_all
from tailrace.errors import ApiError
from tailrace.net.connection import Connection
from tailrace.net.context import Context, HotConnection
from tailrace.net.dispatch import HotHandler, Service
from tailrace.net.limits.answer_memory import OWN_BYTES
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.quotas.meter import Unmetered
from tailrace.net.server import Server
from tailrace.net.session import AuthenticationState
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.connection import Promised
from tailrace.wire.messages import HeartbeatRequest, HeartbeatResponse, ListGroupsRequest
from tailrace.wire.pieces import Piece

AT_ONCE, SILENT, FUTURE, PROMISED, MUTING, ORDINARY = range(6)
KINDS = (AT_ONCE, SILENT, FUTURE, PROMISED, MUTING, ORDINARY)
MUTE_MS = 30


class Role:
    """Remembers what it was asked, and owes answers until the test gives them."""

    def __init__(self) -> None:
        self.produce: HotHandler = self.as_asked
        self.handled: list[int] = []
        self.owed: list[Any] = []
        self.at_end: list[tuple[list[Any], bytes]] = []

    def hot(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> Any:
        return self.produce(connection, version, correlation_id, body)

    def as_asked(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> Any:
        self.handled.append(correlation_id)
        kind, answer = body[0], struct.pack(">ii", 4, correlation_id)
        if kind == SILENT:
            return None
        if kind == MUTING:
            connection.mute(MUTE_MS)
        if kind in {AT_ONCE, MUTING}:
            slot: list[Any] = []
            self.at_end.append((slot, answer))
            return slot
        if kind == FUTURE:
            future = asyncio.get_running_loop().create_future()
            self.owed.append(lambda: future.set_result([answer]))
            return future
        promised = Promised()

        def give() -> None:
            promised.answer = [answer]
            connection.flush()

        self.owed.append(give)
        return promised

    async def ordinary(self, request: HeartbeatRequest, context: Context, role: Role) -> HeartbeatResponse:
        self.handled.append(context.correlation_id)
        event = asyncio.Event()
        self.owed.append(event.set)
        await event.wait()
        return HeartbeatResponse(error_code=0)

    def end_of_read(self) -> None:
        at_end, self.at_end = self.at_end, []
        for slot, answer in at_end:
            slot.append(answer)


class World:
    def __init__(self, loop: VirtualLoop, chunk_bytes: int = 1 << 20, **options: Any) -> None:
        self.loop, self.role = loop, Role()
        self.log = structlog.testing.CapturingLogger()
        self.service = service = Service(
            role=self.role,
            handlers={ApiKey.HEARTBEAT: self.role.ordinary},
            apis=INTERNAL_APIS,
            log=structlog.wrap_logger(self.log, processors=[]),
            memory=RoleMemory(),
            hot={ApiKey.PRODUCE: self.role.hot},
            end_of_read=self.role.end_of_read,
            **options,
        )
        self.connection = Connection(Server(service))
        self.transport = MemoryTransport(self.connection, chunk_bytes)
        self.do(self.transport.open)

    def do(self, action: Any, *given: Any, **named: Any) -> None:
        """Does it inside the loop, and lets what follows happen."""

        async def inside() -> None:
            action(*given, **named)

        self.loop.run(inside())
        self.settle()

    def settle(self, ms: float = 0) -> None:
        self.loop.settle(ms)
        while self.transport.reading and self.transport.unread and not self.transport.closed:
            self.do(self.transport.deliver)

    def give(self, number: int) -> None:
        """Answers one of the requests that are owed an answer."""
        if self.role.owed:
            self.do(self.role.owed.pop(number % len(self.role.owed)))

    def nothing_is_waited_for(self) -> None:
        """All answers are given and taken, and no mute lasts."""
        while True:
            before = len(self.role.handled), len(self.transport.sent), self.connection.received_bytes
            self.do(self.transport.take, takes=True)
            while self.role.owed:
                self.give(0)
            self.settle(MUTE_MS)
            self.do(self.transport.deliver)
            if before == (len(self.role.handled), len(self.transport.sent), self.connection.received_bytes):
                return

    @property
    def answered(self) -> list[int]:
        sent, found = bytes(self.transport.sent), []
        while sent:
            size, correlation_id = struct.unpack_from(">ii", sent)
            found.append(correlation_id)
            sent = sent[4 + size :]
        return found

    @property
    def whys(self) -> list[str]:
        return [call.kwargs.get("why") or call.kwargs["event"] for call in self.log.calls]


def frame(kind: int, correlation_id: int, padding: int) -> bytes:
    if kind == ORDINARY:
        request = HeartbeatRequest(group_id="g" * padding, generation_id=1, member_id="m")
        return codec.encode_request(request, 4, correlation_id, "c")
    body = bytes([kind]) + bytes(padding)
    return struct.pack(">ihhih", 10 + len(body), ApiKey.PRODUCE, 7, correlation_id, -1) + body


RUNS = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.sampled_from([1, 2, 7, 255, 256, 257, 700]), st.sampled_from([0, 3, 90, 3000])
    ),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.sampled_from([1, 3, 13, 100, 5_000, 1 << 30])),
        st.tuples(st.just("give"), st.integers(0, 300)),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("wait"), st.just(MUTE_MS)),
    ),
    max_size=12,
)


def stream_of(runs: list[tuple[int, int, int]]) -> tuple[list[int], list[bytes]]:
    kinds = [(kind, padding) for kind, count, padding in runs for _ in range(min(count, 12 if kind in SLOW else count))]
    return [kind for kind, _ in kinds], [frame(kind, number, padding) for number, (kind, padding) in enumerate(kinds)]


SLOW = {FUTURE, MUTING, ORDINARY}


@settings(max_examples=30, deadline=None)
@given(RUNS, STEPS, st.sampled_from([1 << 20, 4096, 61]), st.booleans(), st.integers(0, 1 << 20))
def test_every_whole_frame_is_handled_once_in_order_or_a_reason_is_given(
    runs: list[tuple[int, int, int]], steps: list[tuple[str, Any]], chunk_bytes: int, ends: bool, cut: int
) -> None:
    kinds, frames = stream_of(runs)
    stream = b"".join(frames)
    if ends:
        stream = stream[: cut % (len(stream) + 1)]
    whole, at = 0, 0
    while whole < len(frames) and at + len(frames[whole]) <= len(stream):
        at += len(frames[whole])
        whole += 1
    with closing(VirtualLoop()) as loop:
        world = World(loop, chunk_bytes, answers_after_end=True)
        rest = stream
        for step, number in steps:
            if step == "feed":
                now, rest = rest[:number], rest[number:]
                world.do(world.transport.feed, now)
            elif step == "give":
                world.give(number)
            elif step == "take":
                world.do(world.transport.take, takes=number)
            else:
                world.settle(number)
            assert world.role.handled == list(range(len(world.role.handled)))
        world.nothing_is_waited_for()
        world.do(world.transport.feed, rest)
        if ends:
            world.do(world.transport.end)
        world.nothing_is_waited_for()
        assert world.role.handled == list(range(whole))
        assert world.answered == [number for number in range(whole) if kinds[number] != SILENT]
        assert world.transport.closed == ends and not world.transport.unread
        assert world.whys == (["the connection ended in the middle of a frame"] if ends and at < len(stream) else [])
        if not ends:
            world.do(world.connection.close)


@pytest.mark.parametrize("kind", [AT_ONCE, PROMISED])
@pytest.mark.parametrize("ends", [False, True])
def test_thousands_of_small_requests_in_one_read_are_all_answered(kind: int, ends: bool) -> None:
    """librdkafka sends so, with its default max.in.flight (1,000,000) and batches of one record."""
    with closing(VirtualLoop()) as loop:
        world = World(loop, answers_after_end=True)
        world.do(world.transport.feed, b"".join(frame(kind, number, 0) for number in range(3000)))
        if ends:
            world.do(world.transport.end)
        while world.role.owed:
            world.give(0)
        assert world.answered == list(range(3000))
        assert world.transport.closed == ends and world.whys == []
        world.do(world.connection.close)


def test_others_have_their_turn_after_as_many_requests_as_have_slots() -> None:
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        turns: list[int] = []

        async def once() -> None:
            world.transport.feed(b"".join(frame(AT_ONCE, number, 0) for number in range(200)))
            world.transport.feed(b"".join(frame(AT_ONCE, 200 + number, 0) for number in range(1000)))
            while len(world.role.handled) < 1200:
                turns.append(len(world.role.handled))
                await asyncio.sleep(0)

        loop.run(once())
        assert len(turns) >= 2
        assert max(after - before for before, after in zip(turns, [*turns[1:], 1200], strict=True)) <= 256
        world.do(world.connection.close)


def test_connections_that_all_send_much_have_their_turns_one_after_another() -> None:
    """What one turn handles of all of them together is bounded, and the first ones are not served again and again."""
    connections, requests = 40, 12
    with closing(VirtualLoop()) as loop:
        world = World(loop, listener="CLIENTS")
        others = [Connection(Server(world.service)) for _ in range(connections)]
        turns: list[int] = []

        async def once() -> None:
            transports = [MemoryTransport(connection) for connection in others]
            for first, transport in enumerate(transports):
                transport.open()
                numbers = range(first * requests, (first + 1) * requests)
                transport.feed(b"".join(frame(AT_ONCE, number, 8_000) for number in numbers))
            while len(world.role.handled) < connections * requests:
                turns.append(len(world.role.handled))
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            for transport in transports:
                transport.close()

        loop.run(once())
        ends = [*turns[1:], connections * requests]
        assert max(after - before for before, after in zip(turns, ends, strict=True)) <= 64
        served = [number // requests for number in world.role.handled]
        for at in range(connections, len(served) // 2, connections):
            assert len(set(served[:at])) > connections // 2
        assert sorted(world.role.handled) == list(range(connections * requests))
        world.do(world.connection.close)


def test_between_services_what_waits_for_nothing_is_handled_before_the_end() -> None:
    """A gateway ends its side behind Produces with acks=0: the broker's close tells it that all were taken."""
    with closing(VirtualLoop()) as loop:
        world = World(loop)

        def both() -> None:
            kinds = [AT_ONCE] * 600 + [SILENT] * 10
            world.transport.feed(b"".join(frame(kind, number, 0) for number, kind in enumerate(kinds)))
            world.transport.end()

        world.do(both)
        assert world.role.handled == list(range(610)) and world.transport.closed


def test_nothing_is_handled_after_the_end_of_a_connection() -> None:
    """A Fetch that was handled for nobody would wait in the purgatory for ever."""
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        world.do(world.transport.feed, frame(FUTURE, 0, 0) + frame(AT_ONCE, 1, 0))
        world.do(world.transport.abort)
        assert world.role.handled == [0]


def test_answers_before_a_frame_that_cannot_be_are_given() -> None:
    """What was handled in the same read is appended and answered, before the connection ends with the reason."""
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        world.do(world.transport.feed, frame(AT_ONCE, 0, 0) + frame(AT_ONCE, 1, 0) + struct.pack(">i", 3))
        assert world.answered == [0, 1] and world.transport.closed
        assert world.whys == ["frame size 3 is not between 8 and 104857600"]


def test_a_hot_handler_with_a_bug_ends_the_connection_and_is_not_called_again() -> None:
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        asked: list[int] = []

        def buggy(connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
            asked.append(correlation_id)
            raise KeyError(correlation_id)

        world.do(world.transport.feed, frame(MUTING, 0, 0))
        world.role.produce = buggy
        world.do(world.transport.feed, frame(AT_ONCE, 1, 0))
        world.settle(MUTE_MS)
        world.settle(MUTE_MS)
        assert asked == [1] and world.transport.closed
        assert world.whys == ["request failed", "a request could not be answered, by a bug"]


@pytest.mark.parametrize(("padding", "copied"), [(3_000, True), (3 << 20, False)])
def test_what_a_request_keeps_is_not_written_over_and_a_large_one_is_not_copied(padding: int, copied: bool) -> None:
    with closing(VirtualLoop()) as loop:
        world, kept = World(loop), list[tuple[memoryview, memoryview]]()

        def keep(connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> None:
            kept.append((body, connection.keep(body)))

        world.role.produce = keep
        world.do(world.transport.feed, b"".join(frame(number, number, padding) for number in range(4)))
        assert [bytes(one) for _, one in kept] == [bytes([number]) + bytes(padding) for number in range(4)]
        assert [one.obj is not body.obj for body, one in kept] == [copied] * 4
        assert world.connection.buffer_bytes < 1 << 20
        assert world.whys == []


def test_a_request_that_somebody_cancels_ends_the_connection_with_a_reason() -> None:
    """Else its client would wait for ever, and so would everything behind it."""
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        world.do(world.transport.feed, frame(ORDINARY, 0, 1) + frame(AT_ONCE, 1, 0))
        world.do(cancel_all)
        assert world.transport.closed and world.whys == ["a request was cancelled"]


def test_a_connection_is_not_released_while_bytes_lie_behind_the_request() -> None:
    """What reads next is a descriptor, or answers: the bytes would be lost, or taken for requests."""
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        world.do(world.transport.feed, frame(ORDINARY, 0, 1) + frame(AT_ONCE, 1, 0))
        with pytest.raises(ApiError, match="bytes came before"):
            world.connection.release()
        world.give(0)
        assert world.answered == [0, 1]
        world.do(world.connection.close)


def test_a_client_that_is_not_authenticated_is_closed_by_any_other_request() -> None:
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        world.connection.session.authentication = AuthenticationState.AUTHENTICATE
        world.do(world.transport.feed, frame(AT_ONCE, 0, 1) + frame(ORDINARY, 1, 1))
        assert world.transport.closed and world.role.handled == []
        assert world.whys == ["api key 0 came before authentication: a mechanism is chosen"]


class Worked(Unmetered):
    """A client with a request_percentage: each piece of work takes a millisecond."""

    request_limited = True

    def __init__(self) -> None:
        self.now_ms, self.charged_ms = 0.0, 0.0
        self.throttle_time_ms = 0

    def work_ms(self) -> float:
        self.now_ms += 1
        return self.now_ms

    def worked(self, time_ms: float) -> int:
        self.charged_ms += time_ms
        return self.throttle_time_ms


@pytest.mark.parametrize("client_ids", [("a", "a"), ("a", "b")])
def test_request_time_is_charged_also_to_a_client_that_changes_its_id_with_each_request(
    client_ids: tuple[str, str],
) -> None:
    meter = Worked()

    class Limited(Connection):
        def renamed(self, client_id: bytes) -> None:
            self.session.meter = meter

    with closing(VirtualLoop()) as loop:
        world = World(loop)
        server = Server(world.service)
        connection = Limited(server)
        connection.named = b"\xff\xfe"  # of no request
        transport = MemoryTransport(connection)
        world.do(transport.open)
        for number in range(11):
            client_id = client_ids[number % 2].encode()
            body = bytes([AT_ONCE])
            head = struct.pack(">ihhih", 10 + len(client_id) + len(body), ApiKey.PRODUCE, 7, number, len(client_id))
            world.do(transport.feed, head + client_id + body)
        assert world.role.handled == list(range(11))
        assert meter.charged_ms == 10  # with the first request the connection says whose it is
        world.do(connection.close)
        world.do(world.connection.close)


@pytest.mark.parametrize("kind", ["FUTURE", "PROMISED"])
def test_request_time_of_an_answer_that_comes_later_is_charged_and_holds_the_client(kind: str) -> None:
    meter, told = Worked(), list[int]()
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        world.connection.session.meter, world.connection.session.on_throttle = meter, told.append
        head = struct.pack(">ihhih", 11, ApiKey.PRODUCE, 7, 1, 0)
        world.do(world.transport.feed, head + bytes([{"FUTURE": FUTURE, "PROMISED": PROMISED}[kind]]))
        assert (meter.charged_ms, world.answered) == (1, [])
        meter.throttle_time_ms = 20
        world.do(world.role.owed.pop())
        assert (meter.charged_ms, world.answered, told) == (2, [1], [20])
        world.do(world.connection.close)


@pytest.mark.parametrize("encrypts", [False, True])
def test_no_files_are_sent_past_a_transport_that_encrypts(encrypts: bool) -> None:
    ours, theirs = socket.socketpair()

    class Transport(MemoryTransport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return {"socket": ours, "sslcontext": object() if encrypts else None}.get(name, default)

    with closing(VirtualLoop()) as loop, closing(ours), closing(theirs):
        world = World(loop)
        connection = Connection(Server(world.service))
        world.do(Transport(connection).open)
        assert connection.sends_files is not encrypts
        world.do(connection.close)
        world.do(world.connection.close)


@pytest.mark.parametrize("takes_at_once", [True, False])
def test_a_relayed_answer_gives_its_memory_back_when_it_was_taken(takes_at_once: bool) -> None:
    with closing(VirtualLoop()) as loop:
        answer = bytes(OWN_BYTES)
        request = codec.encode_request(ListGroupsRequest(states_filter=[], types_filter=[]), 5, 1, "c")

        async def relay(connection: Connection, asked: memoryview) -> list[bytes]:
            await memory.room(connection, len(answer) + 8)
            return [struct.pack(">ii", len(answer) + 4, 1), answer]

        world = World(loop, relay=relay)
        memory = world.service.memory.answers
        world.transport.takes = takes_at_once
        world.do(world.transport.feed, request)
        assert memory.held_bytes == (0 if takes_at_once else len(answer) + 8)
        world.do(world.transport.take, takes=True)
        assert (world.answered, memory.held_bytes) == ([1], 0)


def test_a_large_answer_behind_one_that_is_awaited_gives_its_memory_back_when_it_was_taken() -> None:
    """A client whose answer is counted further on is closed when others wait, though it has taken all."""
    with closing(VirtualLoop()) as loop:
        request = codec.encode_request(ListGroupsRequest(states_filter=[], types_filter=[]), 5, 1, "c")

        async def relay(connection: Connection, asked: memoryview) -> bytes:
            await memory.room(connection, 2 * OWN_BYTES)
            return struct.pack(">ii", OWN_BYTES + 4, 1) + bytes(OWN_BYTES)

        world = World(loop, relay=relay)
        memory = world.service.memory.answers
        world.do(world.transport.feed, frame(PROMISED, 0, 0) + request)
        assert (world.answered, memory.held_bytes) == ([], 2 * OWN_BYTES)
        world.give(0)
        assert (world.answered, memory.held_bytes) == ([0, 1], 0)
        world.do(world.connection.close)


def test_answers_that_a_client_does_not_take_count_as_memory_until_it_does() -> None:
    with closing(VirtualLoop()) as loop:
        world = World(loop)
        memory = world.service.memory.answers

        def large(connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> list[Piece]:
            return [struct.pack(">ii", 2 * OWN_BYTES + 4, correlation_id), bytes(2 * OWN_BYTES)]

        world.role.produce = large
        world.do(world.transport.take, takes=False)
        world.do(world.transport.feed, frame(AT_ONCE, 0, 0))
        assert memory.held_bytes == 2 * OWN_BYTES + 8
        world.do(world.transport.take, takes=True)
        assert (world.answered, memory.held_bytes) == ([0], 0)

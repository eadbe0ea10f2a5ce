"""The gateway's side of a client's connection: whatever comes, every whole request is answered once and in order.

Real sockets of one process, a loop whose clock goes by itself, and a node that answers when the test lets it.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from contextlib import closing
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gateway import BOOT_ID, ScriptedFollower
from support.memory_streams import VirtualLoop, cancel_all
from support.sasl import authenticator
from tailrace.clock import Clock, ManualClock
from tailrace.metadata.image import MetadataImage
from tailrace.net.identity import Identity
from tailrace.net.quotas.meter import Unmetered
from tailrace.net.session import AuthenticationState
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.header import parse_request_header
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.gateway import Advertised, GatewayLimits, Parts
from tailrace_gateway.relay.link import MUTED
from tailrace_gateway.relay.node import NodeLink

PRODUCE, SILENT, FETCH, HERE = range(4)
MUTE_MS = 30
MUTES_MAX = 3  # one after the other without a request between: its reading, its answering, its node's greeting


class Meter(Unmetered):
    """Every so many-th Produce is over quota, and every so many-th piece of work."""

    fetch_limited = False

    def __init__(self, every: int, works: int) -> None:
        self.every, self.count = every, 0
        self.works, self.work_count = works, 0
        self.time_ms = 0.0
        self.produce_limited, self.request_limited = bool(every), bool(works)

    def work_ms(self) -> float:
        self.time_ms += 1
        return self.time_ms

    def worked(self, time_ms: float) -> int:
        assert time_ms > 0
        self.work_count += 1
        return 0 if self.work_count % self.works else MUTE_MS

    def produced(self, size_bytes: int) -> int:
        self.count += 1
        return 0 if self.count % self.every else MUTE_MS

    def fetched(self, size_bytes: int) -> int:
        return 0

    def fetch_max_bytes(self) -> int:
        return 1 << 30


def answer_to(frame: bytes) -> bytes:
    """What a node says to a Produce or a Fetch of these tests; nothing to acks=0."""
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    if key == m.ProduceRequest.API_KEY:
        request = codec.decode_request(key, version, frame[parse_request_header(frame).body_offset :])
        response: Any = m.ProduceResponse(responses=[])
        if not request.acks:
            return b""
    else:
        response = m.FetchResponse(responses=[])
    return codec.encode_response(response, version, correlation_id)


class World:
    def __init__(
        self, loop: VirtualLoop, every: int = 0, works: int = 0, clock: Clock | None = None, **limits: Any
    ) -> None:
        self.loop = loop
        self.log = structlog.testing.CapturingLogger()
        self.meter = Meter(every, works)
        self.do(self.open, limits, clock or SystemClock())

    def open(self, limits: dict[str, Any], clock: Clock) -> None:
        parts = Parts(
            follower=ScriptedFollower(MetadataImage(offset=0, epoch=1, cluster_id="c")),
            clock=clock,
            sasl=authenticator(clock),
            random=random.Random(1),
            log=structlog.wrap_logger(self.log, processors=[]),
            meter_of=lambda broker_id, client_id, user="": self.meter,
            limits=GatewayLimits(**limits),
            advertised=Advertised(),
            boot_id=BOOT_ID,
        )
        self.gateway = AnsweringGateway(parts)
        self.gateway.open_node = self.open_node  # type: ignore[method-assign]
        self.client, accepted = self.pair()
        self.link = ClientLink(accepted, self.gateway, Identity(node_id=0))
        self.gateway.connections.add(self.link)
        self.node: socket.socket | None = None
        self.node_got, self.node_read, self.got = bytearray(), 0, bytearray()
        self.closed = False
        self.link.start()

    def pair(self) -> tuple[socket.socket, socket.socket]:
        ours, theirs = socket.socketpair()
        for one in (ours, theirs):
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return ours, theirs

    async def open_node(self, connection: ClientLink) -> NodeLink:
        self.node, theirs = self.pair()
        self.node.send(struct.pack(">iibh", 7, 0, 0, 0))  # to the preamble, which is left out
        return NodeLink(theirs, self.gateway.pool, connection)

    def do(self, action: Any, *given: Any) -> None:
        async def inside() -> None:
            action(*given)

        self.loop.run(inside())
        self.loop.settle()

    def feed(self, data: bytes) -> bytes:
        """Sends what the socket takes; returns the rest."""
        try:
            return data[self.client.send(data) :] if data else b""
        except BlockingIOError:
            return data
        except OSError:
            return b""

    def take(self) -> None:
        try:
            while data := self.client.recv(1 << 20):
                self.got += data
            self.closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    def answer(self, most: int) -> None:
        """The node reads what has come and answers so many requests; after an end it closes."""
        if self.node is None:
            return
        ended = False
        try:
            while data := self.node.recv(1 << 20):
                self.node_got += data
            ended = True
        except (BlockingIOError, OSError):
            pass
        while most and len(self.node_got) - self.node_read >= 4:
            (size,) = struct.unpack_from(">i", self.node_got, self.node_read)
            if len(self.node_got) - self.node_read < 4 + size:
                break
            answer = answer_to(bytes(self.node_got[self.node_read + 4 : self.node_read + 4 + size]))
            if answer:
                try:
                    sent = self.node.send(answer)
                except OSError:
                    break
                assert sent == len(answer)
            self.node_read += 4 + size
            most -= 1
        if ended and most:
            self.node.close()
            self.node = None

    def nothing_is_waited_for(self, rest: bytes = b"") -> None:
        """The client sends the rest and takes all, the node answers all, and no mute lasts."""
        idle = 0
        while idle < MUTES_MAX:
            before = len(rest), len(self.got), len(self.node_got), self.node_read, self.link.received_bytes
            rest = self.feed(rest)
            self.loop.settle(MUTE_MS)
            self.do(self.answer, 1 << 30)
            self.take()
            after = len(rest), len(self.got), len(self.node_got), self.node_read, self.link.received_bytes
            idle = idle + 1 if before == after else 0
        assert not rest or self.closed

    @property
    def answered(self) -> list[int]:
        sent, found = bytes(self.got), []
        while sent:
            size, correlation_id = struct.unpack_from(">ii", sent)
            found.append(correlation_id)
            sent = sent[4 + size :]
        return found

    @property
    def node_keys(self) -> list[tuple[int, int]]:
        """(api key, version) of what the node got."""
        found, at = [], 0
        while at < len(self.node_got):
            size, key, version = struct.unpack_from(">ihh", self.node_got, at)
            found.append((key, version))
            at += 4 + size
        return found

    @property
    def whys(self) -> list[str]:
        return [call.kwargs.get("why") or call.kwargs["event"] for call in self.log.calls]

    def close(self) -> None:
        self.do(self.link.close)
        self.client.close()
        if self.node is not None:
            self.node.close()


def frame(kind: int, correlation_id: int, padding: int, version: int = 9) -> bytes:
    request: Any
    if kind in {PRODUCE, SILENT}:
        topic = m.ProduceRequest.TopicProduceData
        rows = [topic.PartitionProduceData(index=0, records=b"x" * padding)]
        request = m.ProduceRequest(
            acks=int(kind == PRODUCE), timeout_ms=1, topic_data=[topic(name="t", partition_data=rows)]
        )
    elif kind == FETCH:
        request, version = m.FetchRequest(topics=[], max_wait_ms=padding), 12
    else:
        request, version = m.ApiVersionsRequest(client_software_name="s" * 9, client_software_version="1"), 3
    return codec.encode_request(request, version, correlation_id, "test")


RUNS = st.lists(
    st.tuples(
        st.sampled_from([PRODUCE, SILENT, FETCH, HERE]),
        st.sampled_from([1, 2, 40, 300]),
        st.sampled_from([0, 3, 20_000]),
    ),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.sampled_from([1, 3, 13, 100, 5_000, 200_000])),
        st.tuples(st.just("answer"), st.integers(1, 50)),
        st.tuples(st.just("take"), st.just(0)),
        st.tuples(st.just("wait"), st.just(MUTE_MS)),
    ),
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(RUNS, STEPS, st.sampled_from([0, 1, 7]), st.sampled_from([0, 1, 5]), st.booleans(), st.integers(0, 1 << 22))
def test_every_whole_request_is_answered_once_in_order_or_a_reason_is_given(
    runs: list[tuple[int, int, int]], steps: list[tuple[str, int]], every: int, works: int, ends: bool, cut: int
) -> None:
    kinds = [(kind, padding) for kind, count, padding in runs for _ in range(min(count, 20) if kind == HERE else count)]
    frames = [frame(kind, number, padding) for number, (kind, padding) in enumerate(kinds)]
    stream = b"".join(frames)
    if ends:
        stream = stream[: cut % (len(stream) + 1)]
    whole, at = 0, 0
    while whole < len(frames) and at + len(frames[whole]) <= len(stream):
        at += len(frames[whole])
        whole += 1
    with closing(VirtualLoop()) as loop, closing(World(loop, every, works)) as world:
        rest = stream
        for step, number in steps:
            if step == "feed":
                rest = world.feed(rest[:number]) + rest[number:]
                loop.settle()
            elif step == "answer":
                world.do(world.answer, number)
            elif step == "take":
                world.take()
                loop.settle()
            else:
                loop.settle(number)
        world.nothing_is_waited_for(rest)
        if ends:
            world.client.shutdown(socket.SHUT_WR)
            world.nothing_is_waited_for()
        assert world.answered == [number for number in range(whole) if kinds[number][0] != SILENT]
        sent = b"".join(frames[number] for number in range(whole) if kinds[number][0] != HERE)
        assert bytes(world.node_got[: len(sent)]) == sent
        assert world.closed == ends
        assert world.whys == (["the connection ended in the middle of a frame"] if ends and at < len(stream) else [])


def test_a_client_over_quota_that_sent_much_is_read_again_after_its_mute() -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop, every=1)) as world:
        frames = [frame(PRODUCE, number, 10_000) for number in range(40)]
        rest = world.feed(b"".join(frames))
        loop.settle()
        for _ in range(50):
            world.nothing_is_waited_for(rest)
            rest = b""
        assert world.answered == list(range(40))


def test_a_throttle_told_to_a_muted_client_is_added_to_the_metric_and_not_to_the_mute() -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop, clock=(clock := ManualClock()))) as world:
        world.do(world.link.session.throttle, 5000)
        clock.advance(4000)
        world.do(world.link.session.throttle, 200)  # for the answer of a Fetch that was waited for
        clock.advance(999)
        assert world.link.pauses & MUTED
        world.do(clock.advance, 1)
        assert not world.link.pauses & MUTED
        assert world.gateway.throttled_ms == 5200


def test_answers_that_wait_behind_a_fetch_have_a_bound_and_the_rest_goes_on_afterwards() -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:
        rest = frame(FETCH, 0, 0) + b"".join(frame(HERE, number, 0) for number in range(1, 4000))
        most = 0
        for _ in range(6000):
            rest = world.feed(rest)
            loop.settle()
            if world.link.slots.kept_bytes == most and world.link.pauses:
                break
            most = world.link.slots.kept_bytes
        assert 1_000_000 < most < 1_100_000
        world.nothing_is_waited_for(rest)
        assert world.answered == list(range(4000)) and not world.link.slots.kept_bytes


@pytest.mark.parametrize("kind", [PRODUCE, FETCH, HERE])
def test_work_for_a_client_with_a_request_percentage_is_charged_once_and_mutes_it(kind: int) -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop, works=1)) as world:
        world.feed(frame(kind, 0, 9))
        loop.settle()
        assert world.meter.work_count == 2  # its reading; its answering here, or the greeting of its node
        assert world.link.pauses
        world.nothing_is_waited_for()
        assert world.answered == [0] and not world.link.pauses
        work_count = world.meter.work_count
        world.meter.request_limited = False
        world.feed(frame(kind, 1, 9))
        world.nothing_is_waited_for()
        assert world.answered == [0, 1] and world.meter.work_count == work_count


def test_a_closed_connection_is_not_muted() -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:
        world.do(world.link.close)
        world.do(world.link.session.throttle, MUTE_MS)
        assert not world.link.pauses


@pytest.mark.parametrize("cut", [5, 30, 200])
def test_a_torn_request_behind_one_that_waits_is_the_reason_after_the_answer(cut: int) -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:
        world.feed(frame(FETCH, 0, 0) + frame(PRODUCE, 1, 500)[:cut])
        world.client.shutdown(socket.SHUT_WR)
        loop.settle()
        assert not world.link.closed and not world.whys
        world.nothing_is_waited_for()
        assert world.answered == [0] and world.closed
        assert world.whys == ["the connection ended in the middle of a frame"]


def test_first_fields_of_any_length_are_waited_for() -> None:
    """A client id and a transactional id at their longest are more than what is kept behind a request that waits."""
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:
        request = m.ProduceRequest(acks=1, timeout_ms=1, transactional_id="t" * 32_767, topic_data=[])
        rest = codec.encode_request(request, 8, 1, "c" * 32_767)
        assert len(rest) > 65_540
        for part in (rest[:65_540], rest[65_540:]):
            left = part
            while left:
                left = world.feed(left)
                loop.settle()
        assert world.link.requests.between_frames and not world.link.tail


def test_a_request_that_somebody_cancels_ends_the_connection_with_a_reason() -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:

        async def never(*given: Any) -> None:
            await asyncio.Event().wait()

        world.gateway.answer = never  # type: ignore[method-assign,assignment]
        world.feed(frame(HERE, 1, 0))
        loop.settle()
        world.do(cancel_all)
        assert world.link.closed and world.whys == ["a request was cancelled"]


def test_a_closed_connection_keeps_nothing_of_the_request_that_came_in_part() -> None:
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:
        asked = codec.encode_request(m.DescribeGroupsRequest(groups=["g" * 30_000] * 100), 3, 5, "c")
        world.nothing_is_waited_for(asked[:100_000])
        assert world.link.torn_bytes() == 100_000
        world.do(world.link.give_way, "others wait")
        assert world.link.torn_bytes() == -1


@pytest.mark.parametrize("kind", [PRODUCE, FETCH, SILENT])
def test_a_client_that_is_not_authenticated_is_closed_by_any_other_request(kind: int) -> None:
    """Of a relayed request nothing reaches the node; ApiVersions is answered before."""
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:
        world.link.session.authentication = AuthenticationState.HANDSHAKE
        world.nothing_is_waited_for(frame(HERE, 0, 0) + frame(kind, 1, 0))
        assert world.answered == [0] and world.closed and not world.node_got


def test_a_large_answer_that_waits_behind_a_fetch_is_counted_until_it_is_taken() -> None:
    """Else each of many clients that let a Fetch wait would keep as much as it likes."""
    size = 8 << 20
    with closing(VirtualLoop()) as loop, closing(World(loop)) as world:

        async def large(asked: Any, link: ClientLink) -> bytes:
            await link.room_for_answer(size)
            return struct.pack(">ii", size - 4, 1) + bytes(size - 8)

        world.gateway.answer = large  # type: ignore[assignment,method-assign]
        memory = world.gateway.memory.answers
        world.feed(frame(FETCH, 0, 0) + frame(HERE, 1, 0))
        loop.settle()
        assert (world.link.slots.kept_bytes, memory.held_bytes) == (size, size)
        world.do(world.answer, 1)
        world.take()
        assert memory.held_bytes == size  # what the socket did not take is here
        world.nothing_is_waited_for()
        assert (world.answered, memory.held_bytes) == ([0, 1], 0)

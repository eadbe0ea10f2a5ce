"""The asking side: answers in whatever pieces reach who waits for them, once and in order, or all hear why not."""

from __future__ import annotations

import asyncio
import struct
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory_streams import MemoryTransport, VirtualLoop
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import ApiVersionsResponse, MetadataRequest


def asked(
    loop: VirtualLoop, count: int, chunk_bytes: int = 1 << 20
) -> tuple[MemoryTransport, list[asyncio.Task[bytes | memoryview]]]:
    client = Client(Address("peer", 1), "test")
    tasks: list[asyncio.Task[bytes | memoryview]] = []

    async def ask() -> MemoryTransport:
        transport = MemoryTransport(None, chunk_bytes)
        transport.set_protocol = lambda protocol: setattr(transport, "protocol", protocol)  # type: ignore[method-assign]
        client.take_over(transport)
        for number in range(count):
            frame = struct.pack(">hhi", 3, 9, number) + b"body"
            tasks.append(asyncio.get_running_loop().create_task(client.ask_frame(frame, timeout_ms=1e9)))
            await asyncio.sleep(0)
        return transport

    return loop.run(ask()), tasks


def feed(loop: VirtualLoop, transport: MemoryTransport, data: bytes) -> None:
    async def inside() -> None:
        transport.feed(data)

    loop.run(inside())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 50, 65_528, 65_532, 65_533, 200_000]), min_size=1, max_size=30),
    st.lists(st.integers(1, 140_000), max_size=20),
    st.sampled_from([1 << 20, 4096, 13]),
)
def test_every_cut_of_the_answers_reaches_those_who_wait(sizes: list[int], cuts: list[int], chunk_bytes: int) -> None:
    frames = [struct.pack(">ii", 4 + size, number) + bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(frames)
    with closing(VirtualLoop()) as loop:
        transport, tasks = asked(loop, len(sizes), chunk_bytes)
        came = 0
        for size in [*cuts, len(stream)]:
            feed(loop, transport, stream[came : came + size])
            came = min(came + size, len(stream))
            loop.settle()
            whole = sum(sum(map(len, frames[: number + 1])) <= came for number in range(len(frames)))
            assert [task.done() for task in tasks] == [True] * whole + [False] * (len(frames) - whole)
        assert [task.result() for task in tasks] == [frame[4:] for frame in frames]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (struct.pack(">ii", 4, 7), "answered out of order"),
        (struct.pack(">i", 3), "announced an answer of 3 bytes, 3 answers are due"),
        (struct.pack(">i", -1), "announced an answer of -1 bytes"),
    ],
)
def test_all_who_wait_hear_what_was_wrong(sent: bytes, why: str) -> None:
    with closing(VirtualLoop()) as loop:
        transport, tasks = asked(loop, 3)
        feed(loop, transport, sent)
        loop.settle()
        assert transport.lost
        for task in tasks:
            with pytest.raises(Disconnected, match=why):
                task.result()


class ClosedIsClosed(MemoryTransport):
    """As uvloop's: a write after the end is a bug of the one who writes."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            raise RuntimeError("unable to perform operation; the handler is closed")
        super().write(data)


def test_a_request_behind_an_answer_that_came_with_the_end_hears_of_the_end() -> None:
    """What the peer serves and its end come together: a broker that registered at that moment ended."""
    row = ApiVersionsResponse.ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=12)

    async def ask(transport: ClosedIsClosed) -> None:
        client = Client(Address("peer", 1), "test")
        client.take_over(transport)
        asking = asyncio.get_running_loop().create_task(client.ask(MetadataRequest(topics=[]), timeout_ms=1e9))
        await asyncio.sleep(0)
        transport.feed(codec.encode_response(ApiVersionsResponse(error_code=0, api_keys=[row]), 0, 1))
        transport.end()
        with pytest.raises(Disconnected):
            await asking
        assert not client.connected

    with closing(VirtualLoop()) as loop:
        loop.run(ask(ClosedIsClosed(None)))


def test_a_connection_that_is_idle_keeps_a_small_buffer() -> None:
    """A broker has one to a gateway for each client that was handed over to it."""
    with closing(VirtualLoop()) as loop:
        transport, tasks = asked(loop, 2)
        assert len(transport.protocol.get_buffer(-1)) == 4096
        answers = [struct.pack(">ii", 4 + size, number) + bytes(size) for number, size in enumerate((4_000, 20_000))]
        feed(loop, transport, answers[0])
        loop.settle()
        assert len(transport.protocol.get_buffer(-1)) == 4096
        feed(loop, transport, answers[1])
        loop.settle()
        assert len(transport.protocol.get_buffer(-1)) == 65_536
        assert [task.result() for task in tasks] == [answer[4:] for answer in answers]

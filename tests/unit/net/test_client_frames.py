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

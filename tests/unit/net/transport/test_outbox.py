"""What an outbox sends in which turn of the event loop."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.log.filesystem.real import RealFile
from tailrace.log.read import Slice
from tailrace.net.transport.outbox import Outbox, PacedSlice


@pytest.mark.parametrize("turn_bytes", [0, 1000])
async def test_what_is_sent_in_turns_begins_with_the_next_one(tmp_path: Path, turn_bytes: int) -> None:
    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"x" * 3000], 0)
    piece = Slice(file, 0, 3000)
    sent = PacedSlice(piece, turn_bytes, None) if turn_bytes else piece
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    drained = asyncio.Event()
    outbox = Outbox(ours, drained.set, lambda error: pytest.fail(str(error)))
    assert outbox.send([b"head", sent]) is (turn_bytes == 0)
    if turn_bytes:
        assert (outbox.memory_bytes, outbox.unsent_bytes) == (4, 3004)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        await drained.wait()
    assert not outbox.busy
    assert theirs.recv(10_000) == b"head" + b"x" * 3000
    outbox.close()
    ours.close()
    theirs.close()


def _send(client: int, piece: Slice, most: int) -> int:
    return os.sendfile(client, piece.file.fileno(), piece.position, most)


class Carrier:
    """Sends what its script says of each slice that it is given: so many bytes, or it does not want to."""

    def __init__(self, script: list[int | None]) -> None:
        self.script = script
        self.asked = 0
        self.fails = False

    def __call__(self, piece: PacedSlice, client: int, reported: Callable[[int | None, bool], None]) -> bool:
        self.asked += 1
        most = self.script.pop(0) if self.script else len(piece)
        if most is None:
            return False
        try:
            sent = _send(client, piece.slice, min(most, len(piece))) if most else 0
        except BlockingIOError:
            sent = 0
        asyncio.get_running_loop().call_soon(reported, sent, self.fails)
        return True


class Client:
    """Both ends of a connection, and what the broker's outbox said of it."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        for end in (self.ours, self.theirs):
            end.setblocking(False)
        self.drained = asyncio.Event()
        self.broke: list[OSError] = []
        self.outbox = Outbox(self.ours, self.drained.set, self.broke.append)

    async def receives(self, count: int) -> bytes:
        """So many bytes, and no more than those."""
        loop, received = asyncio.get_running_loop(), b""
        while len(received) < count:
            received += await loop.sock_recv(self.theirs, 50_000)
        with pytest.raises(BlockingIOError):
            self.theirs.recv(1)
        return received

    def close(self) -> None:
        self.outbox.close()
        self.ours.close()
        self.theirs.close()


SIZE = 400_000


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([random.Random(1).randbytes(SIZE)], 0)
    return file


class Silent:
    """Takes what it is given, and says how that ended when it is asked to."""

    def __init__(self) -> None:
        self.reported: list[Callable[[int | None, bool], None]] = []

    def __call__(self, piece: PacedSlice, client: int, reported: Callable[[int | None, bool], None]) -> bool:
        self.reported.append(reported)
        return True

    def report(self, sent: int | None, *, failed: bool) -> None:
        self.reported.pop()(sent, failed)


class Lent:
    """All of the file in memory, in parts of a few bytes; a Loan."""

    def __init__(self, file: RealFile) -> None:
        self.memory = file.pread(SIZE, 0)

    def parts(self, length: int, position: int) -> list[tuple[int, int]]:
        return [(position, min(length, PART - position % PART))]

    def view(self, length: int, position: int) -> bytes:
        place, count = self.parts(length, position)[0]
        return self.memory[place : place + count]

    def read(self, length: int, position: int) -> bytes:
        return self.memory[position : position + length]


PART = 30_000


def carried(file: RealFile, carrier: Any, position: int = 0, length: int = SIZE, *, lent: bool = False) -> PacedSlice:
    return PacedSlice(Slice(file, position, length), 131_072, carrier, Lent(file) if lent else None)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(st.none() | st.integers(0, SIZE), max_size=8),
    pieces=st.lists(st.tuples(st.booleans(), st.integers(0, SIZE - 1), st.integers(1, SIZE)), min_size=1, max_size=6),
    fails=st.booleans(),
    lent=st.booleans(),
)
def test_who_sends_what_makes_no_difference_to_the_client(
    file: RealFile, script: list[int | None], pieces: list[tuple[bool, int, int]], fails: bool, lent: bool
) -> None:
    async def run() -> None:
        client, carrier, out, expected = Client(), Carrier(script), list[Any](), b""
        carrier.fails = fails
        for is_slice, position, length in pieces:
            data = file.pread(length, position)  # to its end at most
            out.append(carried(file, carrier, position, len(data), lent=lent) if is_slice else data)
            expected += data
        at_once = client.outbox.send(out)
        assert await client.receives(len(expected)) == expected
        if not at_once:
            await client.drained.wait()
        assert not client.outbox.busy
        assert not client.outbox.unsent_bytes
        assert not client.broke
        client.close()

    asyncio.run(run())


async def test_nothing_is_sent_while_somebody_else_sends(file: RealFile) -> None:
    client, carrier = Client(), Silent()
    assert not client.outbox.send([b"head", carried(file, carrier), b"tail"])
    assert not client.outbox.send([b"next"])
    assert await client.receives(4) == b"head"
    assert client.outbox.unsent_bytes == SIZE + 8
    carrier.report(SIZE, failed=False)
    assert await client.receives(8) == b"tailnext"
    assert client.drained.is_set()
    client.close()


async def test_a_client_is_closed_where_nobody_knows_what_was_sent(file: RealFile) -> None:
    client, carrier = Client(), Silent()
    client.outbox.send([carried(file, carrier)])
    carrier.report(None, failed=True)
    assert isinstance(client.broke.pop(), ConnectionAbortedError)
    assert not client.outbox.busy
    client.close()


async def test_the_end_is_seen_also_while_somebody_else_has_the_socket(file: RealFile) -> None:
    client, carrier = Client(), Silent()
    client.outbox.send([carried(file, carrier)])
    its_own = os.dup(client.ours.fileno())
    client.outbox.close()
    client.ours.close()
    assert client.theirs.recv(1) == b""
    with pytest.raises(BrokenPipeError):
        os.sendfile(its_own, file.fileno(), 0, 10)
    carrier.report(0, failed=True)  # it says so, and nobody minds
    assert not client.broke
    os.close(its_own)
    client.theirs.close()

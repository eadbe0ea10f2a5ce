"""The connection without its socket, fed in any pieces: every whole frame is handled once, or there is a reason."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.wire.connection import (
    AWAITED,
    BUSY,
    IN_FLIGHT_MAX,
    MUTED,
    UNTAKEN,
    ClientConnection,
    Fate,
    Promised,
    ServerConnection,
    answer_size,
)
from tailrace.wire.malformed import Malformed
from tailrace.wire.pieces import Piece

MOST = 4096
AT_ONCE, AT_END, SILENT, PROMISED, AWAITING, ORDINARY, MUTING = range(7)
KINDS = range(7)
BODY = 9  # the shortest frame: a size, then at least 8 bytes


def frame(number: int, kind: int, padding: int = 0) -> bytes:
    body = struct.pack(">ib", number, kind) + bytes(BODY - 5 + padding)
    return struct.pack(">i", len(body)) + body


def chopped(stream: bytes, seed: int) -> Iterator[bytes]:
    """One byte at a time, or pieces of any size."""
    draw = random.Random(seed)
    while stream:
        size = 1 if not seed else draw.choice([1, 2, 3, 7, 50, 1000])
        yield stream[:size]
        stream = stream[size:]


class Server:
    """What stands around the core: keeps what was not handled, handles as each frame says, takes the answers."""

    def __init__(self) -> None:
        self.core = ServerConnection(MOST)
        self.kept = bytearray()
        self.handled: list[int] = []
        self.sent: list[int] = []
        self.owed: list[Callable[[], None]] = []
        self.at_end: list[tuple[list[Piece], int]] = []
        self.why = ""

    def feed(self, data: bytes) -> None:
        self.kept += data
        self.go_on()

    def go_on(self) -> None:
        while not self.why:
            try:
                pos, need = self.core.receive(
                    memoryview(bytes(self.kept)), len(self.kept), self.handle, self.end_of_read
                )
            except Malformed as malformed:
                self.end_of_read()
                self.end(str(malformed))
                return
            del self.kept[:pos]
            assert not need or len(self.kept) < need, "a whole frame was not handed over"
            self.end_of_read()
            if not pos:
                break
        fate = self.core.fate(len(self.kept))
        if fate in {Fate.DONE, Fate.TORN}:
            self.end(fate.value)

    def end_of_read(self) -> None:
        at_end, self.at_end = self.at_end, []
        for slot, number in at_end:
            slot.append(b"%d" % number)
        self.sent += (int(piece) for piece in self.core.take_ready() if isinstance(piece, bytes))

    def end(self, why: str) -> None:
        self.why = why
        self.core.close()

    def handle(self, body: memoryview) -> None:
        assert not self.core.stops and len(self.core.slots) < IN_FLIGHT_MAX
        number, kind = struct.unpack_from(">ib", body)
        self.handled.append(number)
        slots = self.core.slots
        if kind == AT_ONCE:
            slots.append(b"%d" % number)
        elif kind == AT_END:
            slot: list[Piece] = []
            self.at_end.append((slot, number))
            slots.append(slot)
        elif kind in {PROMISED, AWAITING}:
            promised = Promised()
            slots.append(promised)
            self.core.stops |= AWAITED if kind == AWAITING else 0
            self.owed.append(lambda: self.give(promised, number, kind))
        elif kind == ORDINARY:
            self.core.stops |= BUSY
            self.owed.append(lambda: self.answer(number))
        elif kind == MUTING:
            slots.append(b"%d" % number)
            self.core.stops |= MUTED
            self.owed.append(lambda: self.start(MUTED))

    def give(self, promised: Promised, number: int, kind: int) -> None:
        promised.answer = [b"%d" % number]
        self.start(AWAITED if kind == AWAITING else 0)

    def answer(self, number: int) -> None:
        self.core.slots.append(b"%d" % number)
        self.start(BUSY)

    def start(self, stop: int) -> None:
        self.core.stops &= ~stop
        self.end_of_read()
        self.go_on()


STEPS = st.lists(st.one_of(st.integers(0, 300), st.sampled_from(["untaken", "taken"])), max_size=20)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([0, 1, 90, 3000])), max_size=40),
    STEPS,
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 1 << 16)),
)
def test_every_whole_frame_is_handled_once_in_order_or_there_is_a_reason(
    asked: list[tuple[int, int]], steps: list[Any], seed: int, cut: int | None
) -> None:
    frames = [frame(number, kind, padding) for number, (kind, padding) in enumerate(asked)]
    stream = b"".join(frames)
    if cut is not None:
        stream = stream[: cut % (len(stream) + 1)]
    whole = sum(len(b"".join(frames[: n + 1])) <= len(stream) for n in range(len(frames)))
    server, todo = Server(), iter(steps)
    for piece in chopped(stream, seed):
        server.feed(piece)
        step = next(todo, None)
        if step == "untaken":
            server.core.stops |= UNTAKEN
        elif step == "taken":
            server.start(UNTAKEN)
        elif server.owed and step is not None:
            server.owed.pop(step % len(server.owed))()
        assert server.handled == list(range(len(server.handled)))
    if cut is not None:
        server.core.ended = True
    server.start(UNTAKEN)
    while server.owed:
        server.owed.pop()()
    assert server.handled == list(range(whole))
    assert server.sent == [number for number in range(whole) if asked[number][0] != SILENT]
    torn = len(stream) != len(b"".join(frames[:whole]))
    assert server.why == ("" if cut is None else (Fate.TORN if torn else Fate.DONE).value)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("size", [-1, 0, 7, MOST + 1, 1 << 30])
def test_a_frame_that_cannot_be_is_a_reason_after_the_answers_before_it(size: int, seed: int) -> None:
    server = Server()
    for piece in chopped(frame(0, AT_ONCE) + frame(1, AT_END) + struct.pack(">i", size) + frame(2, AT_ONCE), seed):
        server.feed(piece)
    assert (server.sent, server.why) == ([0, 1], f"frame size {size} is not between 8 and {MOST}")


def test_answers_leave_before_there_are_too_many_of_them() -> None:
    core, full = ServerConnection(MOST), []

    def handle(body: memoryview) -> None:
        core.slots.append(bytes(400_000))
        core.answered_bytes += 400_000

    view = memoryview(b"".join(frame(number, AT_ONCE) for number in range(9)))
    assert core.receive(view, len(view), handle, lambda: full.append(len(core.take_ready()))) == (len(view), 0)
    assert full == [3, 3, 3]


def test_no_request_is_handled_while_many_bytes_of_answers_wait_behind_a_promised_one() -> None:
    """A Produce waits for replicas, and each Fetch behind it may have an answer of a mebibyte."""
    core, first = ServerConnection(MOST), Promised()
    core.slots.append(first)

    def handle(body: memoryview) -> None:
        core.slots.append([bytes(400_000)])
        core.answered_bytes += 400_000

    def leave() -> None:
        core.take_ready()

    view = memoryview(b"".join(frame(number, AT_ONCE) for number in range(9)))
    three = len(view) // 3
    assert core.receive(view, len(view), handle, leave) == (three, 0)
    assert core.receive(view[three:], 2 * three, handle, leave) == (0, 0)
    assert not core.may_handle
    first.answer = [b"there"]
    assert len(core.take_ready()) == 4 and core.may_handle
    assert core.receive(view[three:], 2 * three, handle, leave) == (2 * three, 0)


def test_no_more_requests_wait_than_there_are_slots() -> None:
    server = Server()
    server.feed(b"".join(frame(number, PROMISED) for number in range(IN_FLIGHT_MAX + 5)))
    assert len(server.handled) == IN_FLIGHT_MAX and not server.core.may_handle
    server.owed.pop(0)()
    assert (server.sent, len(server.handled)) == ([0], IN_FLIGHT_MAX + 1)


# -- the end that asks ------------------------------------------------------------------------------------------------


class Client:
    def __init__(self, asked: int) -> None:
        self.core: ClientConnection[str] = ClientConnection()
        self.kept = b""
        self.came: list[tuple[str, bytes]] = []
        for number in range(asked):
            self.core.asked(number, f"who asked {number}")

    def feed(self, data: bytes) -> None:
        self.kept += data
        pos, need = self.core.receive(memoryview(self.kept), len(self.kept), lambda *came: self.came.append(came))
        self.kept = self.kept[pos:]
        assert not need or len(self.kept) < 4 + need


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 3))
def test_every_answer_reaches_who_asked_for_it(bodies: list[bytes], seed: int) -> None:
    client = Client(len(bodies))
    for piece in chopped(b"".join(answer(*pair) for pair in enumerate(bodies)), seed):
        client.feed(piece)
    assert client.came == [(f"who asked {n}", answer(n, body)[4:]) for n, body in enumerate(bodies)]
    assert not client.core.waiting and not client.kept


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("last", "why"),
    [
        (answer(1), "answered out of order"),
        (struct.pack(">i", 3), "announced an answer of 3 bytes, 1 answers are due"),
        (struct.pack(">i", -1), "announced an answer of -1 bytes, 1 answers are due"),
        (struct.pack(">i", (1 << 30) + 1), "announced an answer of 1073741825 bytes, 1 answers are due"),
        (answer(0) + answer(0), "announced an answer of 4 bytes, 0 answers are due"),
    ],
)
def test_an_answer_that_nobody_waits_for_is_a_reason(last: bytes, why: str, seed: int) -> None:
    client = Client(1)
    with pytest.raises(Malformed) as malformed:
        for piece in chopped(last, seed):
            client.feed(piece)
    assert str(malformed.value) == why


def test_an_answer_may_be_bounded_closer() -> None:
    assert answer_size(struct.pack(">i", 100), 100) == 100
    with pytest.raises(Malformed):
        answer_size(struct.pack(">i", 101), 100)


def test_a_frame_that_is_not_handled_yet_comes_again() -> None:
    core, wants = ServerConnection(MOST), [False, True, False]
    data = bytearray(frame(1, ORDINARY) + frame(2, ORDINARY))
    seen: list[int] = []

    def handle(one: memoryview) -> bool:
        seen.append(one[3])
        return wants.pop(0)

    pos, _ = core.receive(memoryview(data), len(data), handle, lambda: None)
    assert (seen, pos) == ([1, 2], len(frame(1, ORDINARY)))
    again = bytearray(data[pos:])
    assert core.receive(memoryview(again), len(again), handle, lambda: None) == (len(again), 0)
    assert seen == [1, 2, 2]

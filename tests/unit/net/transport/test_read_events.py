"""Sockets that all have something to read at once: some in each turn of the loop, in order, and none is forgotten."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tailrace.net.transport import read_events
from tailrace.net.transport.event_budget import EventBudget
from tailrace.net.transport.read_events import BoundedPoll, ReadEvents

MANY = 300
MOST_A_TURN = 128
ALONE = 16  # so often that the loop watches a socket itself


class Reader:
    """One end of a pair, which reads a byte at a time and notes in which turn."""

    def __init__(self, poll: BoundedPoll, seen: list[Reader], turns: list[int]) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.seen, self.turns = seen, turns
        self.events = ReadEvents(self.near.fileno(), self.read, poll)
        self.count = 0
        self.events.start()

    def read(self) -> None:
        try:
            self.near.recv(1)
        except BlockingIOError:
            return
        self.count += 1
        self.seen.append(self)
        self.turns[-1] += 1

    def close(self) -> None:
        self.events.close()
        self.near.close()
        self.far.close()


class Room:
    """Many readers, and a count of turns beside them."""

    def __init__(self, count: int = MANY) -> None:
        soon = asyncio.get_running_loop().call_soon
        self.poll = BoundedPoll(EventBudget(soon, lambda: 0.0), EventBudget(soon, lambda: 0.0))
        self.seen: list[Reader] = []
        self.turns = [0]
        self.readers = [Reader(self.poll, self.seen, self.turns) for _ in range(count)]

    async def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.turns.append(0)
            await asyncio.sleep(0)

    async def until(self, seen: int) -> None:
        for _ in range(2_000):
            if len(self.seen) >= seen:
                return
            await self.turn()
        raise AssertionError(f"{len(self.seen)} of {seen} were read")


@pytest.fixture
def rooms() -> Iterator[list[Room]]:
    opened: list[Room] = []
    yield opened
    for room in opened:
        for reader in room.readers:
            reader.close()


async def test_sockets_that_are_ready_at_once_are_read_in_several_turns(rooms: list[Room]) -> None:
    rooms.append(room := Room())
    for reader in room.readers:
        reader.far.send(b"x")
    await room.until(MANY)
    assert sorted(map(id, room.seen)) == sorted(map(id, room.readers)), "each once"
    assert max(room.turns) <= MOST_A_TURN


async def test_a_socket_that_always_has_more_waits_for_the_others(rooms: list[Room]) -> None:
    rooms.append(room := Room())
    endless = room.readers[0]
    endless.far.send(b"x" * 10_000)
    for reader in room.readers[1:]:
        reader.far.send(b"x")
    await room.until(MANY)
    while len(set(room.seen)) < MANY:
        await room.turn()
    assert endless.count < 30, "no more often than once in each turn"


async def test_what_is_stopped_or_closed_while_it_waits_is_not_read(rooms: list[Room]) -> None:
    rooms.append(room := Room())
    for reader in room.readers:
        reader.far.send(b"x")
    while not room.seen:
        await room.turn()
    waiting = [reader for reader in room.readers if not reader.count]
    assert len(waiting) > 2
    stopped, closed, *others = waiting
    stopped.events.stop()
    closed.close()
    await room.until(MANY - 2)
    await room.turn(5)
    assert (stopped.count, closed.count) == (0, 0)
    assert all(reader.count == 1 for reader in others)
    stopped.events.start()
    await room.until(MANY - 1)
    assert stopped.count == 1


async def test_what_is_stopped_and_started_while_it_waits_is_read_once_and_goes_on(rooms: list[Room]) -> None:
    rooms.append(room := Room())
    for reader in room.readers:
        reader.far.send(b"x")
    while not room.seen:
        await room.turn()
    waiting = next(reader for reader in room.readers if not reader.count)
    waiting.events.stop()
    waiting.events.start()
    await room.until(MANY)
    assert waiting.count == 1
    waiting.far.send(b"y")
    await room.until(MANY + 1)
    assert waiting.count == 2


async def often_alone(room: Room, readers: list[Reader]) -> None:
    for reader in readers:
        for _ in range(ALONE):
            reader.far.send(b"x")
            await room.until(len(room.seen) + 1)


async def test_a_socket_that_often_comes_alone_is_watched_by_the_loop_and_reads_on(rooms: list[Room]) -> None:
    rooms.append(room := Room(3))
    often, paused, _ = room.readers
    await often_alone(room, [often, paused])
    assert [reader.events.polled for reader in room.readers] == [False, False, True]
    paused.events.stop()
    for reader in room.readers:
        reader.far.send(b"y")
    await room.until(2 * ALONE + 2)
    await room.turn(3)
    assert [reader.count for reader in room.readers] == [ALONE + 1, ALONE, 1]
    paused.events.start()
    await room.until(2 * ALONE + 3)
    often.close()
    room.readers.remove(often)
    paused.far.send(b"z")
    await room.until(2 * ALONE + 4)


async def test_a_loop_watches_a_bounded_number_itself_and_the_newest_of_them(
    rooms: list[Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_events, "_MOST_DIRECT", 5)
    rooms.append(room := Room(8))
    await often_alone(room, room.readers)
    assert [reader.events.polled for reader in room.readers] == [True] * 3 + [False] * 5
    for reader in room.readers:
        reader.far.send(b"y")
    await room.until(8 * ALONE + 8)


async def test_those_that_the_loop_watches_itself_and_that_are_ready_at_once_are_read_in_several_turns(
    rooms: list[Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_events, "_MOST_DIRECT", MANY)
    rooms.append(room := Room())
    await often_alone(room, room.readers)
    for reader in room.readers:
        reader.far.send(b"y")
    await room.until(MANY * ALONE + MANY)
    assert all(reader.count == ALONE + 1 for reader in room.readers)
    assert max(room.turns) <= MOST_A_TURN


async def test_an_event_that_ends_others_of_the_same_look_has_them_not_read(rooms: list[Room]) -> None:
    rooms.append(room := Room())
    reads: list[int] = []

    def read(number: int) -> None:
        reads.append(number)
        for reader in room.readers:
            reader.events.close()

    for number, reader in enumerate(room.readers):
        reader.events.close()
        reader.events = ReadEvents(reader.near.fileno(), lambda number=number: read(number), room.poll)  # type: ignore[misc]
        reader.events.start()
        reader.far.send(b"x")
    await room.turn(5)
    assert len(reads) == 1

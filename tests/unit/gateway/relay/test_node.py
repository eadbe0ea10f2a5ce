"""One request and its answer over a connection of the client's own: its ends while an answer is waited for."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from support.waiting import HUNG_S
from tailrace_gateway.relay.node import Exchange

FRAME = struct.pack(">ii", 4, 7)
LARGE = struct.pack(">ii", 1_000_004, 7) + bytes(1_000_000)


def opened() -> tuple[Exchange, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return Exchange(near), far


async def asking(exchange: Exchange) -> asyncio.Task[memoryview]:
    task = asyncio.create_task(exchange.ask(FRAME))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_an_answer_is_whole_in_however_many_parts_it_comes() -> None:
    exchange, far = opened()
    loop = asyncio.get_running_loop()
    with far:
        for answer in (FRAME, LARGE, FRAME):
            task = await asking(exchange)
            assert far.recv(100) == FRAME
            for part in (answer[:2], answer[2:7], answer[7:]):
                await loop.sock_sendall(far, part)
                await asyncio.sleep(0)
            assert bytes(await task) == answer
        exchange.close()


@pytest.mark.parametrize("how", ["the peer closes", "broken off", "closed here"])
async def test_who_waits_for_an_answer_hears_of_the_end(how: str) -> None:
    exchange, far = opened()
    task = await asking(exchange)
    with far:
        if how == "the peer closes":
            far.close()
        elif how == "broken off":
            exchange.break_off()
        else:
            exchange.close()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(task, HUNG_S)
    assert not exchange.alive()


async def test_a_question_that_is_cancelled_ends_the_connection_and_watches_nothing() -> None:
    exchange, far = opened()
    task = await asking(exchange)
    with far:
        task.cancel()
        exchange.close()  # as the client's connection does, before the task hears of it
        near, other = socket.socketpair()  # which may have the descriptor of the one before
        near.setblocking(False)
        second = Exchange(near)
        asked = await asking(second)
        with pytest.raises(asyncio.CancelledError):
            await task
        with other:
            other.send(FRAME)
            assert bytes(await asyncio.wait_for(asked, HUNG_S)) == FRAME
        second.close()


async def test_a_connection_with_many_answers_behind_it_may_be_closed_while_it_waits() -> None:
    """The loop watches such a socket itself, and the question that is cut off closes the connection once more."""
    exchange, far = opened()
    with far:
        for _ in range(20):
            task = await asking(exchange)
            far.recv(100)
            far.send(FRAME)
            assert bytes(await task) == FRAME
        task = await asking(exchange)
        exchange.close()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(task, HUNG_S)

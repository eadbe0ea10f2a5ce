"""What a connection keeps of bytes that the other side does not take, and all connections together."""

from __future__ import annotations

import socket
from contextlib import suppress

from support.waiting import turns_until
from tailrace_gateway.relay.buffers import BUFFER_BYTES, LITTLE_BYTES, MOST_LENT, Buffer, BufferPool
from tailrace_gateway.relay.link import Link

SENT = bytes(range(256)) * (BUFFER_BYTES // 256)


class Passing(Link):
    """Passes what it reads on to another link, and remembers how much came at once."""

    to: Link

    def received(self, buffer: Buffer, end: int) -> int:
        self.came.append(end)
        self.to.write(buffer.view[:end], buffer)
        return end

    came: list[int]


def linked(pool: BufferPool) -> tuple[Passing, Link, socket.socket, socket.socket]:
    """Two links, one of which passes on, and the far ends; the one that sends has sent a buffer full."""
    near, sends = socket.socketpair()
    out, takes = socket.socketpair()
    sends.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * BUFFER_BYTES)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for sock in (near, out):
        sock.setblocking(False)
    source, target = Passing(near, pool), Link(out, pool)
    source.to, source.came = target, []
    sends.settimeout(0)
    sends.send(SENT)
    return source, target, sends, takes


async def taken(target: Link, takes: socket.socket) -> bytes:
    """All that the target has to send."""
    takes.setblocking(False)
    found = b""

    def more() -> bool:
        nonlocal found
        with suppress(BlockingIOError):
            while data := takes.recv(1 << 20):
                found += data
        return not target.outbox

    await turns_until(more)
    return found


async def test_what_is_not_taken_stays_in_the_buffer_that_it_came_in() -> None:
    pool = BufferPool()
    source, target, sends, takes = linked(pool)
    with sends, takes:
        source.start()
        await turns_until(lambda: target.outbox)
        source.pause(1)
        assert pool.lent == 1 and source.came[0] > LITTLE_BYTES
        assert await taken(target, takes) == SENT[: sum(source.came)]
        assert pool.lent == 0
        source.close()
        target.close()


async def test_where_many_buffers_are_lent_reads_are_small_and_what_is_not_taken_is_copied() -> None:
    pool = BufferPool()
    pool.lent = MOST_LENT
    source, target, sends, takes = linked(pool)
    with sends, takes:
        source.start()
        await turns_until(lambda: target.outbox)
        source.pause(1)
        assert max(source.came) <= LITTLE_BYTES
        assert pool.lent == MOST_LENT and pool.free  # it was not lent
        assert await taken(target, takes) == SENT[: sum(source.came)]
        assert pool.lent == MOST_LENT
        source.close()
        target.close()

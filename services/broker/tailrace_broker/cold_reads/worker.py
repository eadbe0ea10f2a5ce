"""Who brings cold data into memory for a broker: a process of its own, and threads where there is none.

The process also sends it: the event loop would be busy with that in many turns, and whoever tails the log would wait.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Protocol

from tailrace.log.read import Slice
from tailrace.net.transport.outbox import PacedSlice
from tailrace_broker.cold_reads.messages import MOST_AT_ONCE, MOST_PARTS, STATUS, MessageKind, Order, OrderStatus
from tailrace_broker.cold_reads.pool import UNREAD, BlockPool, PooledSlice

COMMAND: Final = (sys.executable, "-m", "tailrace_broker.cold_reads.cold_process")
_NICEST: Final = 19
REST_SECONDS: Final = 10.0
_MOST_REST_SECONDS: Final = 600.0
_LAST_BREATH_SECONDS: Final = 5.0
_DEAD: Final = OrderStatus(0, -1)  # what no process says
_FOR_NOW: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})  # nothing is wrong with the file
_MOST_NUMBERS: Final = 2**31


class ColdWorker(Protocol):
    """Who reads."""

    @property
    def starts(self) -> int:
        """How often a process was started."""
        ...

    async def warm(self, piece: Slice) -> None:
        """Returns when all of it is in the page cache; OSError if it cannot be read."""
        ...

    @property
    def pool(self) -> BlockPool | None:
        """Where it reads to past the page cache."""
        ...

    @property
    def reads_apart(self) -> bool:
        """Whether it can do that now."""
        ...

    async def read(self, piece: PooledSlice) -> int | None:
        """As Apart.fill asks for it: returns when the block is in the pool, how many bytes it has."""
        ...

    def carry(self, piece: PacedSlice, client: int, reported: Callable[[int | None, bool], None]) -> bool:
        """As Carrier, of what is in the page cache or in the pool."""
        ...

    def close(self) -> None: ...


def _give_way() -> None:
    """Threads that read for who is behind get the processor when nobody else wants it."""
    with suppress(OSError):  # a kernel that knows no priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICEST)


class InThreads:
    """A few threads of the broker."""

    starts = 0
    pool: BlockPool | None = None
    reads_apart = False

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "cold-read", initializer=_give_way)

    async def warm(self, piece: Slice) -> None:
        """As ColdWorker.warm."""
        await asyncio.get_running_loop().run_in_executor(self._threads, piece.file.warm, piece.length, piece.position)

    async def read(self, piece: PooledSlice) -> int | None:
        """As ColdWorker.read."""
        return None

    def carry(self, piece: PacedSlice, client: int, reported: Callable[[int | None, bool], None]) -> bool:
        """They hold the interpreter's lock as long as the event loop would."""
        return False

    def close(self) -> None:
        """Waits for what is under way."""
        self._threads.shutdown(cancel_futures=True)


class InProcess:
    """A process (cold_process.py), started at the first cold read, and again if it dies; threads until it is up."""

    def __init__(self, threads: InThreads, pool: BlockPool | None = None, rest_seconds: float = REST_SECONDS) -> None:
        """rest_seconds: after a death, times their number."""
        self._threads = threads
        self._pool = pool
        self._rest_seconds = rest_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._up = False  # it has said something
        self._number = 0
        self._waiting: dict[int, Callable[[OrderStatus], None]] = {}
        self._not_before = 0.0  # of the event loop's clock
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the process while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether the process has said that it takes orders, and has not died since."""
        return self._up

    async def warm(self, piece: Slice) -> None:
        """As ColdWorker.warm."""
        loop = asyncio.get_running_loop()
        if self._orders is None and loop.time() >= self._not_before:
            self._start(loop)
        # What the process could not read a thread reads again, for the sake of the error.
        if (await self._ordered(piece, MessageKind.BRING, 0)).error:
            await self._threads.warm(piece)

    @property
    def pool(self) -> BlockPool | None:
        """As ColdWorker.pool."""
        return self._pool

    @property
    def reads_apart(self) -> bool:
        """As ColdWorker.reads_apart."""
        return self._up and self._pool is not None

    async def read(self, piece: PooledSlice) -> int | None:
        """As ColdWorker.read."""
        status = await self._ordered(piece, MessageKind.READ, piece.block.place)
        if status is _DEAD or status.error in _FOR_NOW:
            return UNREAD
        # Short in the middle of a file: something is wrong with it, and the page cache's way will say what.
        short = status.size < min(piece.length, piece.file.stat().size_bytes - piece.position)
        return None if status.error or short else status.size

    async def _ordered(self, piece: Slice, kind: MessageKind, place: int) -> OrderStatus:
        reported: asyncio.Future[OrderStatus] = asyncio.get_running_loop().create_future()

        def report(status: OrderStatus) -> None:
            # The piece is held until now, whoever waits: until now the process may write to its place.
            if piece is not None and not reported.done():
                reported.set_result(status)

        order = Order(self._next(), piece.position, piece.length, kind, place)
        return await reported if self._give(order, [piece.file.fileno()], report) else _DEAD

    def carry(self, piece: PacedSlice, client: int, reported: Callable[[int | None, bool], None]) -> bool:
        """As ColdWorker.carry; nobody knows what was sent by a process that died."""
        sent, loan, number = piece.slice, piece.loan, self._next()

        def report(status: OrderStatus) -> None:
            nonlocal loan
            loan = None  # held until now, also where the connection was closed: until now it was sent from
            reported(None if status is _DEAD else status.size, status.error != 0)

        if loan is None:
            order = Order(number, sent.position, sent.length, MessageKind.SEND)
            return self._give(order, [sent.file.fileno(), client], report)
        parts = tuple(loan.parts(sent.length, sent.position)[:MOST_PARTS])
        return self._give(Order(number, 0, 0, MessageKind.SEND_HELD, parts=parts), [client], report)

    def _next(self) -> int:
        self._number = self._number % _MOST_NUMBERS + 1
        return self._number

    def _give(self, order: Order, descriptors: list[int], reported: Callable[[OrderStatus], None]) -> bool:
        """Whether the process will do it; told is called then, in a later turn of the event loop."""
        if not self._up or self._orders is None:
            return False
        try:
            socket.send_fds(self._orders, [order.pack()], descriptors)
        except OSError:  # it is dying, or so slow that its orders fill the socket
            return False
        self._waiting[order.number] = reported
        return True

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.starts += 1
        self._not_before = loop.time() + min(_MOST_REST_SECONDS, self._rest_seconds * self.starts)
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return
        with theirs:
            try:
                # A group of its own: what a terminal signals is for the broker. In the broker's session: Linux shares
                # the processor out between sessions first (sched(7), autogroup), and priorities count within one only.
                shared = [] if self._pool is None else [self._pool.descriptor]
                command = [*COMMAND, str(theirs.fileno()), *map(str, shared or [-1])]
                self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(), *shared), process_group=0)
            except OSError:
                ours.close()
                return
        ours.setblocking(False)
        self._orders = ours
        loop.add_reader(ours, self._answered, loop, ours)

    def _answered(self, loop: asyncio.AbstractEventLoop, orders: socket.socket) -> None:
        data = b""
        try:
            data = orders.recv(STATUS.size)
        except BlockingIOError:
            return
        except OSError:
            pass
        if len(data) != STATUS.size:
            self._bury(loop)
            return
        self._up = True
        status = OrderStatus(*STATUS.unpack(data))
        if (reported := self._waiting.pop(status.number, None)) is not None:
            reported(status)

    def _bury(self, loop: asyncio.AbstractEventLoop) -> None:
        process = self._free(loop)
        if process is not None:
            loop.run_in_executor(None, _end, process)

    def _free(self, loop: asyncio.AbstractEventLoop) -> subprocess.Popen[bytes] | None:
        """Of the process and of its socket; who waits for it is told."""
        orders, self._orders, self._up = self._orders, None, False
        if orders is not None:
            loop.remove_reader(orders)
            orders.close()
        waiting, self._waiting = self._waiting, {}
        for reported in waiting.values():
            reported(_DEAD)
        process, self._process = self._process, None
        return process

    def close(self) -> None:
        """Ends the process at once: nothing is lost with it."""
        process = self._free(asyncio.get_running_loop())
        self._not_before = float("inf")
        if process is not None:
            _end(process)
        if self._pool is not None:
            self._pool.close()
        self._threads.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(subprocess.TimeoutExpired):  # it hangs in a read of a disk that hangs
        process.wait(_LAST_BREATH_SECONDS)

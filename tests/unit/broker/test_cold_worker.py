"""The process that reads cold data, and what happens without it."""

import asyncio
import errno
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tailrace.log.filesystem import RealFile
from tailrace.log.reading import Slice
from tailrace_broker import cold_worker
from tailrace_broker.cold_orders import ORDER, STATUS, Order, Status
from tailrace_broker.cold_process import done, serve
from tailrace_broker.cold_worker import InProcess, InThreads


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"x" * 300_000], 0)
    return file


class Threads(InThreads):
    """Notes what came to them."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    async def warm(self, piece: Slice) -> None:
        self.read.append(piece.position)
        await super().warm(piece)


@pytest.fixture
async def threads() -> Threads:
    return Threads()


@pytest.fixture
async def worker(threads: Threads) -> AsyncIterator[InProcess]:
    worker = InProcess(threads)
    yield worker
    worker.close()


async def said(worker: InProcess) -> None:
    """Returns when the process has been heard of, once from now on."""
    heard, loop = asyncio.Event(), asyncio.get_running_loop()
    orders = worker._orders
    assert orders is not None

    def hear() -> None:
        worker._answered(loop, orders)
        heard.set()

    loop.add_reader(orders, hear)
    await heard.wait()
    if worker._orders is not None:
        loop.add_reader(worker._orders, worker._answered, loop, worker._orders)


async def up(worker: InProcess) -> None:
    """Returns when the process has said that it takes orders, which it may have while a thread read."""
    if not worker._up:
        await said(worker)


async def test_a_process_reads_once_it_is_up(worker: InProcess, threads: Threads, file: RealFile) -> None:
    assert worker.starts == 0  # it costs nothing before the first cold read
    await worker.warm(Slice(file, 0, 100_000))
    assert threads.read == [0]
    assert worker.starts == 1
    await up(worker)
    await asyncio.gather(*(worker.warm(Slice(file, n, 200_000)) for n in range(1, 40)))
    await worker.warm(Slice(file, 400_000, 10))  # behind the end, as when the file was cut meanwhile
    assert threads.read == [0]
    assert worker.starts == 1


async def test_it_runs_where_nobody_else_wants_to(worker: InProcess, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    assert os.sched_getscheduler(worker.pid) == os.SCHED_IDLE


async def test_threads_read_where_the_process_died(worker: InProcess, threads: Threads, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    waiting = [asyncio.create_task(worker.warm(Slice(file, n, 10))) for n in (1, 2)]
    await asyncio.sleep(0)
    os.kill(worker.pid, signal.SIGKILL)
    await asyncio.gather(*waiting)
    await worker.warm(Slice(file, 3, 10))
    assert sorted(threads.read) == [0, 1, 2, 3]
    assert worker.pid is None
    assert worker.starts == 1  # not again at once: it may die each time


async def test_it_is_started_again_after_a_rest(worker: InProcess, threads: Threads, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    await said(worker)
    assert worker.pid is None
    worker._not_before = 0.0
    await worker.warm(Slice(file, 1, 10))
    await up(worker)
    await worker.warm(Slice(file, 2, 10))
    assert threads.read == [0, 1]
    assert worker.starts == 2


async def test_what_cannot_be_read_is_the_error_of_whoever_asked(worker: InProcess, tmp_path: Path) -> None:
    folder = RealFile(str(tmp_path), os.O_RDONLY)
    for _ in range(2):  # by a thread, by the process
        with pytest.raises(OSError, match=r"Invalid argument|Is a directory"):
            await worker.warm(Slice(folder, 0, 10))
        if worker._up:
            return
        await said(worker)


@pytest.mark.parametrize("missing", ["/nowhere/python", "/bin/false"])
async def test_without_a_process_threads_read(
    worker: InProcess, threads: Threads, file: RealFile, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(cold_worker, "COMMAND", (missing,))
    for position in (0, 1):
        await worker.warm(Slice(file, position, 10))
        if worker._orders is not None:
            await said(worker)  # that it has ended
    assert threads.read == [0, 1]
    assert worker.pid is None


async def test_who_waits_when_the_broker_stops_is_let_go(worker: InProcess, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(worker.warm(Slice(file, 1, 10)))
    await asyncio.sleep(0)
    worker.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        await waiting
    assert worker.pid is None


class Told:
    """What a carrier said, once."""

    def __init__(self) -> None:
        self.said: asyncio.Future[tuple[int | None, bool]] = asyncio.get_running_loop().create_future()

    def __call__(self, sent: int | None, failed: bool) -> None:
        self.said.set_result((sent, failed))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket as the broker has it, and the client's end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


async def test_the_process_sends_what_the_socket_takes(
    worker: InProcess, file: RealFile, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    file.pwritev([bytes(range(256)) * 4000], 0)
    piece, told = Slice(file, 100, 1_000_000), Told()
    assert not worker.carry(piece, ours.fileno(), told)  # there is no process
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.carry(piece, ours.fileno(), told)
    sent, failed = await told.said
    assert sent is not None
    assert 0 < sent < 1_000_000
    assert not failed
    received = theirs.recv(1_000_000, socket.MSG_DONTWAIT)
    assert received == file.pread(len(received), 100)
    while len(received) < sent:
        received += theirs.recv(1_000_000, socket.MSG_DONTWAIT)
    assert received == file.pread(sent, 100)
    with pytest.raises(BlockingIOError):
        theirs.recv(1, socket.MSG_DONTWAIT)


async def test_what_cannot_be_sent_is_told(
    worker: InProcess, file: RealFile, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    behind, gone = Told(), Told()
    assert worker.carry(Slice(file, 299_000, 2_000), ours.fileno(), behind)
    assert await behind.said == (1_000, True)
    theirs.close()
    assert worker.carry(Slice(file, 0, 1_000), ours.fileno(), gone)
    assert await gone.said == (0, True)
    assert worker.starts == 1


async def test_nobody_knows_what_a_process_that_died_has_sent(
    worker: InProcess, file: RealFile, pair: tuple[socket.socket, socket.socket]
) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    told = Told()
    assert worker.carry(Slice(file, 0, 1_000), pair[0].fileno(), told)
    os.kill(worker.pid, signal.SIGKILL)
    assert await told.said == (None, True)


def test_one_order_after_the_other_until_there_is_nobody_to_give_any(file: RealFile) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    serving = threading.Thread(target=serve, args=(theirs,))
    serving.start()
    with theirs, ours:
        for number in (1, 2):
            socket.send_fds(ours, [ORDER.pack(*Order(number, 0, 300_000))], [file.fileno()])
            assert STATUS.unpack(ours.recv(100)) == Status(number, 0)
        ours.send(ORDER.pack(*Order(3, 0, 10)))  # the descriptor could not come along
        assert STATUS.unpack(ours.recv(100)) == Status(3, errno.EMFILE)
        socket.send_fds(ours, [ORDER.pack(*Order(4, 0, 10, sends=True))], [file.fileno()])  # nor the socket's
        assert STATUS.unpack(ours.recv(100)) == Status(4, errno.EMFILE)
        ours.shutdown(socket.SHUT_WR)
        serving.join()


def test_descriptors_are_closed_also_after_an_error(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert done(Order(7, 0, 10), [descriptor]) == Status(7, errno.EINVAL)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)

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

from support.waiting import another_process
from tailrace.log.filesystem.real import RealFile
from tailrace.log.read import Slice
from tailrace.net.transport.outbox import PacedSlice
from tailrace_broker.cold_reads import worker as cold_worker
from tailrace_broker.cold_reads.cold_process import done, serve
from tailrace_broker.cold_reads.messages import MOST_PARTS, STATUS, MessageKind, Order, OrderStatus
from tailrace_broker.cold_reads.pool import BLOCK_BYTES, BlockPool, HeldBlocks, lent
from tailrace_broker.cold_reads.worker import InProcess, InThreads

NO_MEMORY = memoryview(b"")


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"x" * 300_000], 0)
    return file


class Threads(InThreads):
    """Notes what came to them."""

    def __init__(self) -> None:
        super().__init__()
        self.warmed: list[int] = []

    async def warm(self, piece: Slice) -> None:
        self.warmed.append(piece.position)
        await super().warm(piece)


@pytest.fixture
async def threads() -> Threads:
    return Threads()


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool(12 * BLOCK_BYTES)


@pytest.fixture
async def worker(threads: Threads, pool: BlockPool) -> AsyncIterator[InProcess]:
    worker = InProcess(threads, pool)
    yield worker
    worker.close()


async def up(worker: InProcess) -> None:
    """Returns when the process has said that it takes orders."""
    await another_process(lambda: worker.is_up)


async def stopped(pid: int) -> None:
    """Halts the process, and returns when all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    await another_process(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")


async def down(worker: InProcess) -> None:
    """Returns when it has been heard that the process ended."""
    await another_process(lambda: worker.pid is None)


async def test_a_process_reads_once_it_is_up(worker: InProcess, threads: Threads, file: RealFile) -> None:
    assert worker.starts == 0  # it costs nothing before the first cold read
    await worker.warm(Slice(file, 0, 100_000))
    assert threads.warmed == [0]
    assert worker.starts == 1
    await up(worker)
    await asyncio.gather(*(worker.warm(Slice(file, n, 200_000)) for n in range(1, 40)))
    await worker.warm(Slice(file, 400_000, 10))  # behind the end, as when the file was cut meanwhile
    assert threads.warmed == [0]
    assert worker.starts == 1


async def test_it_runs_where_nobody_else_wants_to(worker: InProcess, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    assert os.sched_getscheduler(worker.pid) == os.SCHED_IDLE
    # Linux shares the processor out between sessions first; what a terminal signals goes to a group.
    assert os.getsid(worker.pid) == os.getsid(0)
    assert os.getpgid(worker.pid) != os.getpgid(0)


async def test_threads_read_where_the_process_died(worker: InProcess, threads: Threads, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    await stopped(worker.pid)
    waiting = [asyncio.create_task(worker.warm(Slice(file, n, 10))) for n in (1, 2)]
    await asyncio.sleep(0)
    os.kill(worker.pid, signal.SIGKILL)
    await asyncio.gather(*waiting)
    await worker.warm(Slice(file, 3, 10))
    assert sorted(threads.warmed) == [0, 1, 2, 3]
    assert worker.pid is None
    assert worker.starts == 1  # not again at once: it may die each time


async def test_it_is_started_again_after_a_rest(threads: Threads, file: RealFile) -> None:
    worker = InProcess(threads, rest_seconds=0)
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    await down(worker)
    await worker.warm(Slice(file, 1, 10))
    await up(worker)
    await worker.warm(Slice(file, 2, 10))
    assert threads.warmed == [0, 1]
    assert worker.starts == 2
    worker.close()


async def test_what_cannot_be_read_is_the_error_of_whoever_asked(worker: InProcess, tmp_path: Path) -> None:
    folder = RealFile(str(tmp_path), os.O_RDONLY)
    for _ in range(2):  # by a thread, by the process
        with pytest.raises(OSError, match=r"Invalid argument|Is a directory"):
            await worker.warm(Slice(folder, 0, 10))
        await up(worker)


@pytest.mark.parametrize("missing", ["/nowhere/python", "/bin/false"])
async def test_without_a_process_threads_read(
    worker: InProcess, threads: Threads, file: RealFile, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(cold_worker, "COMMAND", (missing,))
    for position in (0, 1):
        await worker.warm(Slice(file, position, 10))
        await down(worker)
    assert threads.warmed == [0, 1]
    assert worker.pid is None


async def test_who_waits_when_the_broker_stops_is_let_go(worker: InProcess, file: RealFile) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    await stopped(worker.pid)
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
    piece, told = paced(Slice(file, 100, 1_000_000)), Told()
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
    assert worker.carry(paced(Slice(file, 299_000, 2_000)), ours.fileno(), behind)
    assert await behind.said == (1_000, True)
    theirs.close()
    assert worker.carry(paced(Slice(file, 0, 1_000)), ours.fileno(), gone)
    assert await gone.said == (0, True)
    assert worker.starts == 1


async def test_nobody_knows_what_a_process_that_died_has_sent(
    worker: InProcess, file: RealFile, pair: tuple[socket.socket, socket.socket]
) -> None:
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pid is not None
    await stopped(worker.pid)
    told = Told()
    assert worker.carry(paced(Slice(file, 0, 1_000)), pair[0].fileno(), told)
    os.kill(worker.pid, signal.SIGKILL)
    assert await told.said == (None, True)


def test_one_order_after_the_other_until_there_is_nobody_to_give_any(file: RealFile) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    serving = threading.Thread(target=serve, args=(theirs, NO_MEMORY))
    serving.start()
    with theirs, ours:
        for number in (1, 2):
            socket.send_fds(ours, [Order(number, 0, 300_000).pack()], [file.fileno()])
            assert STATUS.unpack(ours.recv(100)) == OrderStatus(number, 0)
        ours.send(Order(3, 0, 10).pack())  # the descriptor could not come along
        assert STATUS.unpack(ours.recv(100)) == OrderStatus(3, errno.EMFILE)
        socket.send_fds(ours, [Order(4, 0, 10, MessageKind.SEND).pack()], [file.fileno()])  # nor the socket's
        assert STATUS.unpack(ours.recv(100)) == OrderStatus(4, errno.EMFILE)
        ours.shutdown(socket.SHUT_WR)
        serving.join()


def test_descriptors_are_closed_also_after_an_error(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert done(Order(7, 0, 10), [descriptor], NO_MEMORY) == OrderStatus(7, errno.EINVAL)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.fixture
def large(tmp_path: Path) -> RealFile:
    """Some blocks, and a little more; every place in it is different."""
    file = RealFile(str(tmp_path / "large"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"".join(number.to_bytes(4, "big") for number in range(10 * BLOCK_BYTES // 4)), b"the end"], 0)
    return file


def paced(piece: Slice) -> PacedSlice:
    return PacedSlice(piece, 131_072, None, lent(piece))


async def hold(worker: InProcess, file: RealFile) -> None:
    """All of the file is read into the pool."""
    await worker.warm(Slice(file, 0, 10))
    await up(worker)
    assert worker.pool is not None
    claimed = worker.pool.claim(file, 0, 11, 11)
    assert claimed is not None
    for block in claimed:
        await block.fill(worker.read)


async def test_the_process_reads_into_the_pool(worker: InProcess, threads: Threads, large: RealFile) -> None:
    assert not worker.reads_apart  # there is no process yet
    await hold(worker, large)
    assert threads.warmed == [0]
    held = large.held
    assert isinstance(held, HeldBlocks)
    for position, length in ((0, 10), (BLOCK_BYTES - 3, 7), (5, 3 * BLOCK_BYTES), (10 * BLOCK_BYTES, 7)):
        assert held.read(length, position) == large.pread(length, position)
    assert held.read(8, 10 * BLOCK_BYTES) is None  # behind the end
    large.pwritev([b"!"], 0)
    assert large.held is None


async def test_what_is_read_into_the_pool_does_not_come_into_the_page_cache(
    worker: InProcess, large: RealFile, threads: Threads
) -> None:
    await worker.warm(Slice(large, 0, 10))
    large.sync()
    os.posix_fadvise(large.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    places = range(0, 10 * BLOCK_BYTES, BLOCK_BYTES // 2)
    before = [large.resident(place) for place in places]  # all of them where the file system is the memory itself
    await up(worker)
    assert worker.pool is not None
    for block in worker.pool.claim(large, 0, 10, 10) or []:
        assert await block.fill(worker.read) == BLOCK_BYTES
    assert [large.resident(place) for place in places] == before


async def test_the_process_sends_from_the_pool(
    worker: InProcess, large: RealFile, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    await hold(worker, large)
    whole, received = large.pread(11 * BLOCK_BYTES, 0), b""
    piece = paced(Slice(large, 7, len(whole) - 7))
    assert piece.loan is not None
    os.ftruncate(large.fileno(), 0)  # unseen by the file: from the page cache nothing can come any more
    orders, most = 0, 0
    while len(piece):
        told = Told()
        assert worker.carry(piece, ours.fileno(), told)
        sent, failed = await told.said
        assert sent is not None
        assert not failed
        orders, most = orders + 1, max(most, sent)
        rest = Slice(large, piece.slice.position + sent, len(piece) - sent)
        piece = PacedSlice(rest, 131_072, None, piece.loan)
        while len(received) < len(whole) - 7 - len(piece):
            received += theirs.recv(1 << 20, socket.MSG_DONTWAIT)
    assert received == whole[7:]
    assert most <= MOST_PARTS * BLOCK_BYTES


async def test_what_is_sent_stays_where_it_is_until_the_process_has_sent_it(
    worker: InProcess, large: RealFile, pool: BlockPool, pair: tuple[socket.socket, socket.socket]
) -> None:
    await hold(worker, large)
    assert worker.pid is not None
    await stopped(worker.pid)
    piece, told = paced(Slice(large, 0, 100)), Told()
    assert piece.loan is not None
    assert worker.carry(piece, pair[0].fileno(), told)
    del piece  # its connection was closed
    other = RealFile(f"/proc/self/fd/{large.fileno()}", os.O_RDONLY)
    assert pool.claim(other, 0, 12, 12) is None
    assert len(pool.claim(other, 0, 12, 1) or []) == 11
    os.kill(worker.pid, signal.SIGCONT)
    assert await told.said == (100, False)
    assert len(pool.claim(other, 0, 12, 1) or []) == 12
    assert pair[1].recv(1000) == large.pread(100, 0)


async def test_a_process_that_dies_leaves_blocks_unread_and_the_file_as_it_was(
    worker: InProcess, large: RealFile, pool: BlockPool
) -> None:
    await worker.warm(Slice(large, 0, 10))
    await up(worker)
    assert worker.pid is not None
    await stopped(worker.pid)
    (block,) = pool.claim(large, 2, 1, 1) or []
    reading = asyncio.create_task(block.fill(worker.read))
    waiting = asyncio.create_task(block.fill(worker.read))  # somebody else, for the same
    await asyncio.sleep(0)
    os.kill(worker.pid, signal.SIGKILL)
    assert await reading == await waiting == 0
    assert block.missing
    assert not worker.reads_apart
    assert isinstance(large.held, HeldBlocks)
    assert large.held.awaits(10, 2 * BLOCK_BYTES)
    del block, reading, waiting
    assert not large.held.awaits(10, 2 * BLOCK_BYTES)


async def test_a_file_that_cannot_be_read_past_the_page_cache_is_not_tried_again(
    worker: InProcess, large: RealFile, pool: BlockPool, tmp_path: Path
) -> None:
    await worker.warm(Slice(large, 0, 10))
    await up(worker)
    folder = RealFile(str(tmp_path), os.O_RDONLY)
    (block,) = pool.claim(folder, 0, 1, 1) or []
    assert await block.fill(worker.read) == 0
    assert pool.held(folder).refused
    assert pool.claim(folder, 0, 1, 1) is None
    assert isinstance(folder.held, HeldBlocks)
    assert folder.held.read(10, 0) is None
    assert not folder.held.awaits(10, 0)

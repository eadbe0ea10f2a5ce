"""A whole topic read from the disk by way of the pool: every record, in order, also where that way is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.broker import Running, batch, image, running
from support.waiting import HUNG_S
from tailrace.log.filesystem.real import RealFile
from tailrace.log.log import Log
from tailrace.log.read import Needs, NeedsScan, Records, Slice
from tailrace.log.segment.view import BackgroundScan
from tailrace_broker.cold_reads import readers
from tailrace_broker.cold_reads.pool import BLOCK_BYTES, BlockPool, PooledSlice
from tailrace_broker.cold_reads.worker import InThreads

BATCHES, SIZE = 60, 100_000


class Worker(InThreads):
    """Reads into a pool; `fails` says of which blocks it cannot."""

    def __init__(self, blocks: int, fails: Callable[[PooledSlice], bool] = lambda piece: False) -> None:
        super().__init__()
        self.pool = BlockPool(blocks * BLOCK_BYTES)
        self.reads_apart = True
        self.fails = fails
        self.brought = 0

    async def read(self, piece: PooledSlice) -> int | None:
        await asyncio.sleep(0)
        if self.fails(piece):
            return None
        data = piece.file.pread(piece.length, piece.position)
        assert self.pool is not None
        self.pool.memory[piece.block.place : piece.block.place + len(data)] = data
        return len(data)

    async def warm(self, piece: Slice) -> None:
        """All of it is there now, as far as anybody sees."""
        self.brought += 1
        BROUGHT.append(range(piece.position, piece.position + piece.length))


BROUGHT: list[range] = []


@pytest.fixture(autouse=True)
def nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """But what was brought; and the first cold read is a scan."""

    def has(file: RealFile, length: int, at: int) -> bool:
        return any(at in part and at + length <= part.stop for part in BROUGHT)

    BROUGHT.clear()
    monkeypatch.setattr(readers, "_SCAN_BYTES", 0)
    monkeypatch.setattr(RealFile, "cached", has)
    monkeypatch.setattr(RealFile, "resident", lambda file, at: False)
    pread = RealFile.pread
    monkeypatch.setattr(
        RealFile, "pread_cached", lambda file, length, at: pread(file, length, at) if has(file, length, at) else None
    )


async def fill(broker: Running) -> list[bytes]:
    """Several segments; the batches as they lie in the log."""
    with pytest.MonkeyPatch.context() as writing:
        writing.setattr(RealFile, "cached", lambda *_: True)
        sent = [batch(number.to_bytes(4, "big") * (SIZE // 4)) for number in range(BATCHES)]
        await broker.produce(0, *sent)
    return sent


async def read_all(broker: Running, max_bytes: int, version: int) -> list[int]:
    """The number in each record's value, from the beginning to the end of the log."""
    found: list[int] = []
    while len(found) < BATCHES:
        row = await broker.fetch(
            0, len(found), version=version, session_epoch=-1, max_bytes=max_bytes, partition_max_bytes=max_bytes
        )
        assert row.error_code == 0
        records, at = bytes(row.records), 0
        assert records
        while at < len(records):
            assert int.from_bytes(records[at : at + 8], "big") == len(found)
            at += 12 + int.from_bytes(records[at + 8 : at + 12], "big")
            found.append(int.from_bytes(records[at - 5 : at - 1], "big"))  # before the headers, of which there are none
    return found


SEGMENTS = {"segment.bytes": "1600000"}


def with_worker(broker: Running, worker: Worker) -> Any:
    cold = broker.broker.cold_reads
    cold.worker = worker
    return cold


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("max_bytes", [1000, 250_000, 1 << 20])
@pytest.mark.parametrize("blocks", [1, 2, 3, 64])
async def test_every_record_comes_by_way_of_the_pool(tmp_path: Path, version: int, max_bytes: int, blocks: int) -> None:
    async with running(tmp_path, image(**SEGMENTS)) as broker:
        await fill(broker)
        cold = with_worker(broker, Worker(blocks))
        assert await read_all(broker, max_bytes, version) == list(range(BATCHES))
        if blocks == 64:
            assert 3_000_000 < cold.pool_bytes < 9_000_000  # all but the active segment, hardly a block twice
        assert cold.held_bytes <= blocks * BLOCK_BYTES


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_what_cannot_be_read_so_goes_through_the_page_cache(tmp_path: Path, version: int, lost: int) -> None:
    seen: list[PooledSlice] = []

    def fails(piece: PooledSlice) -> bool:
        seen.append(piece)
        return len(seen) > lost

    async with running(tmp_path, image(**SEGMENTS)) as broker:
        await fill(broker)
        worker = Worker(64, fails)
        cold = with_worker(broker, worker)
        assert await read_all(broker, 250_000, version) == list(range(BATCHES))
        assert worker.brought > 0
        assert cold.pool_bytes <= lost * BLOCK_BYTES


async def test_a_walk_that_is_wanted_first_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes that are on the disk only: another thread reads them, and then the fetch is answered."""
    async with running(tmp_path, image(**SEGMENTS)) as broker:
        await fill(broker)
        with_worker(broker, Worker(64))
        await broker.fetch(0, 0, session_epoch=-1)  # its requests are known from now on, and it scans
        in_memory, walked = Log.read, list[BackgroundScan]()

        def read(log: Log, *arguments: Any) -> Records | Needs:
            if not walked or not walked[0].done:
                walked[:] = walked or [BackgroundScan(log.segments[0])]
                return NeedsScan(walked[0])
            found: Records | Needs = in_memory(log, *arguments)
            return found

        monkeypatch.setattr(Log, "read", read)
        assert (await broker.fetch(0, 0, session_epoch=-1)).records
        assert walked[0].done


async def test_a_client_that_leaves_while_its_scan_waits_leaves_nothing(tmp_path: Path) -> None:
    goes_on, asked = asyncio.Event(), asyncio.Event()

    class Slow(Worker):
        async def read(self, piece: PooledSlice) -> int | None:
            asked.set()
            await goes_on.wait()
            return await super().read(piece)

    async with running(tmp_path, image(**SEGMENTS)) as broker:
        await fill(broker)
        cold = with_worker(broker, Worker(64))
        await broker.fetch(0, 0, session_epoch=-1)
        cold.worker = Slow(64)
        fetching = asyncio.create_task(broker.fetch(0, 40, session_epoch=-1))
        await asked.wait()
        await broker.client.close()
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await fetching
        goes_on.set()
        async with asyncio.timeout(HUNG_S):
            await asyncio.gather(*(task for task in asyncio.all_tasks() if "_bring" in str(task.get_coro())))
        await asyncio.sleep(0)
        assert cold.turns.running == len(cold.turns) == 0

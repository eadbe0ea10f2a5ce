"""What is brought for who reads cold data, and when its answers wait for that."""

import asyncio
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from tailrace.log.filesystem.memory import MemoryFile
from tailrace.log.filesystem.port import FileStat
from tailrace.log.read import Records, Slice
from tailrace.net.transport.outbox import PacedSlice
from tailrace_broker.cold_reads.pool import BlockPool, PooledSlice, lent
from tailrace_broker.cold_reads.readers import ColdReader, cold_reader, loaded

MIB = 1 << 20


class File:
    """So large, with nothing in the page cache but what lies behind a position."""

    def __init__(self, size: int = 100 * MIB, hot_from: int | None = None) -> None:
        self.size = size
        self.hot_from = size if hot_from is None else hot_from
        self.error: OSError | None = None
        self.held: Any = None

    def stat(self) -> FileStat:
        return FileStat(self.size, 0)

    def resident(self, position: int) -> bool:
        if self.error is not None:
            raise self.error
        return position >= self.hot_from

    def cached(self, length: int, position: int) -> bool:
        raise AssertionError("the kernel begins to read what is not there, in the way of its own reading ahead")


def piece(file: Any, position: int, length: int = MIB) -> Records:
    return Records(file, position, length)


def place(wanted: Sequence[Slice]) -> tuple[int, int]:
    (one,) = wanted
    return one.position, one.length


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool(8 * MIB)


def test_who_goes_on_is_brought_more_each_time() -> None:
    """Before it comes to the end of that: what follows an answer's last batch is looked at, too."""
    reader, file, at = ColdReader(), File(), 0
    seen: list[int] = []
    while len(seen) < 6:
        if not seen or reader.must_wait(piece(file, at)):
            position, length = place(reader.wants(piece(file, at)))
            seen.append(length // MIB)
            assert position == at
            end = at + length
        at += MIB
        assert reader.must_wait(piece(file, at)) == (at >= end - MIB)
    assert seen == [1, 2, 3, 5, 9, 9]


def test_who_jumps_begins_anew() -> None:
    reader, file = ColdReader(), File()
    reader.wants(piece(file, 0))
    assert place(reader.wants(piece(file, MIB))) == (MIB, 2 * MIB)
    assert not reader.must_wait(piece(file, 50 * MIB))  # it may be in the page cache: a look at it will tell
    assert place(reader.wants(piece(file, 50 * MIB))) == (50 * MIB, MIB)
    assert not reader.must_wait(piece(file, 10 * MIB))
    assert reader.must_wait(piece(file, 51 * MIB))


def test_nothing_is_asked_for_behind_the_end_of_the_file() -> None:
    reader, file = ColdReader(), File(size=2 * MIB + 7)
    reader.wants(piece(file, 0))
    assert place(reader.wants(piece(file, MIB))) == (MIB, MIB + 7)


def test_a_file_that_is_no_longer_cold_is_read_as_any_other() -> None:
    reader, file = ColdReader(), File(hot_from=60 * MIB)
    reader.wants(piece(file, 40 * MIB))
    assert reader.reads(piece(file, 0))
    assert reader.must_wait(piece(file, 41 * MIB))
    assert place(reader.wants(piece(file, 43 * MIB + 1))) == (43 * MIB + 1, MIB)
    assert not reader.reads(piece(file, 0))
    assert not reader.must_wait(piece(file, 45 * MIB))


def test_who_catches_up_is_not_kept_from_the_newest() -> None:
    """The last records are in the page cache because they were just written."""
    reader, file = ColdReader(), File(size=3 * MIB, hot_from=2 * MIB)
    assert place(reader.wants(piece(file, 0))) == (0, MIB)
    assert not reader.must_wait(piece(file, MIB))


def test_behind_what_was_brought_for_it_nobody_looks_before_it_is_there() -> None:
    reader, file = ColdReader(), File()
    reader.wants(piece(file, 0))
    end = MIB + place(reader.wants(piece(file, MIB)))[1]
    assert not reader.must_wait(piece(file, end - 2 * MIB))  # it ends a mebibyte before the end
    assert reader.must_wait(piece(file, end - 2 * MIB + 1))


def test_a_disk_that_fails_is_heard_of_by_who_brings_it() -> None:
    reader, file = ColdReader(), File()
    file.error = OSError(5, "Input/output error")
    assert place(reader.wants(piece(file, 0))) == (0, MIB)
    assert not reader.reads(piece(file, 0))


def test_the_files_of_a_connection_share_what_is_brought_ahead_and_are_no_more_than_64() -> None:
    reader, files = ColdReader(), [File() for _ in range(70)]
    for file in files:
        reader.wants(piece(file, 0))
    assert [reader.reads(piece(file, 0)) for file in files] == [False] * 6 + [True] * 64
    assert place(reader.wants(piece(files[-1], MIB))) == (MIB, MIB + 8 * MIB // 64)


@pytest.mark.parametrize("length", [1000, 100_000])
@pytest.mark.parametrize("sends_files", [True, False])
def test_only_what_is_in_the_page_cache_is_loaded_without_waiting(
    file: MemoryFile, monkeypatch: pytest.MonkeyPatch, length: int, sends_files: bool
) -> None:
    one, state = Records(file, 0, length), dict[str, Any]()
    hot = loaded(one, sends_files, state)
    assert hot is one if sends_files and length > 65_536 else hot == b"x" * length
    monkeypatch.setattr(MemoryFile, "cached", lambda *_: False)
    monkeypatch.setattr(MemoryFile, "pread_cached", lambda *_: None)
    assert loaded(one, sends_files, state) is None
    waited = loaded(one, sends_files, state, wait=True)
    assert waited is not None and len(waited) == length


def test_who_reads_cold_data_gets_it_by_somebody_else_or_in_slices(
    file: MemoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carrier(*_: object) -> bool:
        return True

    state: dict[str, Any] = {}
    hot = loaded(Records(file, 0, 70_000), True, state)
    assert type(hot) is Records
    with monkeypatch.context() as cold:
        cold.setattr(MemoryFile, "cached", lambda *_: False)
        cold_reader(state, carrier).wants(Slice(file, 0, 140_000))
    brought = loaded(Records(file, 0, 70_000), True, state)
    assert isinstance(brought, PacedSlice)
    assert (brought.turn_bytes, brought.carrier) == (131_072, carrier)
    assert loaded(Records(file, 0, 1000), True, state) == b"x" * 1000
    # It lies in the page cache, and yet it is touched for it first.
    assert loaded(Records(file, 70_000, 70_000), True, state) is None
    waited = loaded(Records(file, 70_000, 70_000), True, state, wait=True)
    assert isinstance(waited, PacedSlice) and waited.turn_bytes == 131_072
    assert loaded(Records(file, 70_000, 1000), True, {}) == b"x" * 1000  # another connection


def test_a_segment_that_was_deleted_is_not_kept() -> None:
    reader, file = ColdReader(), File()
    reader.wants(piece(file, 0))
    gone = weakref.ref(file)
    del file
    assert gone() is None


def scanning(pool: BlockPool, file: Any, *, begun: list[Any] | None = None) -> ColdReader:
    """Who has read as much as makes a scan."""
    reader = ColdReader(None, None if begun is None else lambda blocks, done: begun.append((blocks, done)))
    at = 0
    while at < 16 * MIB:
        at += place(reader.wants(piece(file, at, MIB), pool))[1]
    return reader


def numbers(wanted: Sequence[Slice]) -> list[int]:
    return [one.number for one in wanted if isinstance(one, PooledSlice)]


def arrive(wanted: Sequence[Slice]) -> None:
    for one in wanted:
        assert isinstance(one, PooledSlice)
        one.block.length = MIB


def test_a_scan_goes_to_the_pool_and_a_short_run_through_the_page_cache(pool: BlockPool) -> None:
    file = File()
    reader = scanning(pool, file)
    assert not reader.scans(piece(file, 0))
    # With the beginning of what follows: whether a batch begins there.
    wanted = reader.wants(piece(file, 30 * MIB + 5, MIB - 5), pool)
    assert numbers(wanted) == [30, 31]
    assert reader.scans(piece(file, 0))
    one = piece(file, 30 * MIB)
    assert reader.must_wait(one)
    arrive(wanted)
    assert not reader.must_wait(one)
    assert lent(one) is not None


def test_what_is_still_written_to_goes_through_the_page_cache(pool: BlockPool) -> None:
    """A read past the page cache keeps those waiting who append to the file."""
    file = File()
    reader = scanning(pool, file)
    assert numbers(reader.wants(piece(file, 30 * MIB, MIB))) == []
    assert not reader.scans(piece(file, 0))


def test_where_the_pool_has_no_place_the_page_cache_has(pool: BlockPool) -> None:
    file, other = File(), piece(File(), 0)
    taken = pool.claim(other.file, 0, 8, 8)
    reader = scanning(pool, file)
    assert place(reader.wants(piece(file, 30 * MIB, MIB), pool)) == (30 * MIB, MIB)
    assert taken is not None
    taken.clear()
    assert numbers(reader.wants(piece(file, 31 * MIB, MIB), pool)) == [31, 32]


def test_what_others_read_is_read_where_it_is(pool: BlockPool) -> None:
    file = File(hot_from=60 * MIB)
    reader = scanning(pool, file)
    assert place(reader.wants(piece(file, 59 * MIB), pool)) == (59 * MIB, MIB)
    assert not reader.scans(piece(file, 0))
    assert numbers(reader.wants(piece(file, 20 * MIB), pool)) == [20, 21]


async def test_a_scan_is_read_ahead_of_itself(pool: BlockPool) -> None:
    file, begun = File(size=34 * MIB + 1), list[Any]()
    reader = scanning(pool, file, begun=begun)
    wanted = reader.wants(piece(file, 30 * MIB, MIB), pool)
    assert numbers(wanted) == [30, 31]
    arrive(wanted)
    reader.soon_go_on(piece(file, 30 * MIB))
    assert begun == []  # whose turn it is has done enough
    await asyncio.sleep(0)
    ((blocks, done),) = begun
    assert numbers(blocks) == [32, 33, 34]  # of four mebibytes what there is of the file
    reader.soon_go_on(piece(file, 31 * MIB))
    await asyncio.sleep(0)
    assert len(begun) == 1  # these are still being read
    done(None)
    reader.soon_go_on(piece(file, 33 * MIB))
    await asyncio.sleep(0)
    assert len(begun) == 1  # there is no more


async def test_scans_share_the_pool(pool: BlockPool) -> None:
    begun = list[Any]()
    files = [File() for _ in range(3)]
    readers = [scanning(pool, file, begun=begun) for file in files]
    for reader, file in zip(readers, files, strict=True):
        arrive(reader.wants(piece(file, 30 * MIB, MIB), pool))
    readers[0].soon_go_on(piece(files[0], 31 * MIB))
    await asyncio.sleep(0)
    ((blocks, _),) = begun
    assert numbers(blocks) == [32, 33]  # up to a third of half of eight


async def test_a_scan_ends_where_others_read(pool: BlockPool) -> None:
    file, begun = File(), list[Any]()
    reader = scanning(pool, file, begun=begun)
    arrive(reader.wants(piece(file, 30 * MIB, MIB), pool))
    file.hot_from = 60 * MIB
    reader.soon_go_on(piece(file, 46 * MIB))  # looked for every 16 MiB
    await asyncio.sleep(0)
    assert begun == []
    assert not reader.scans(piece(file, 0))

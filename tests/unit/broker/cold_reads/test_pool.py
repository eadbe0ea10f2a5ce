"""Who has which block of the pool, and for how long."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.log.filesystem.memory import MemoryFile, MemoryFilesystem
from tailrace_broker.cold_reads.pool import BLOCK_BYTES, UNREAD, BlockPool, HeldBlocks, PooledBytes, PooledSlice

BLOCKS = 4


def new_file(filesystem: MemoryFilesystem, number: int = 0) -> MemoryFile:
    return filesystem.open(f"/{number}", create=True)


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool(BLOCKS * BLOCK_BYTES + 1)


@pytest.fixture
def one() -> MemoryFile:
    return new_file(MemoryFilesystem())


def stamp(file: MemoryFile, number: int) -> bytes:
    """What a block of a file holds, in short."""
    return b"%d of %d" % (number, id(file))


def put(pool: BlockPool, file: MemoryFile, claimed: PooledSlice, length: int = BLOCK_BYTES) -> None:
    """As if it had been read from the disk."""
    block, content = claimed.block, stamp(file, claimed.number)
    pool.memory[block.place : block.place + len(content)] = content
    block.used, block.length = True, length


def filled(pool: BlockPool, file: MemoryFile, first: int, count: int) -> list[PooledSlice]:
    claimed = pool.claim(file, first, count, count)
    assert claimed is not None
    for block in claimed:
        put(pool, file, block)
    return claimed


def holds(file: MemoryFile, number: int) -> bool:
    return isinstance(file.held, HeldBlocks) and file.held.read(10, number * BLOCK_BYTES) is not None


def test_the_least_recently_used_is_the_next_to_be_filled(pool: BlockPool, one: MemoryFile) -> None:
    for number in range(BLOCKS):
        filled(pool, one, number, 1)
    assert pool.held_bytes == pool.size_bytes == BLOCKS * BLOCK_BYTES
    assert holds(one, 0)  # which uses it
    filled(pool, one, 10, 1)
    assert [holds(one, number) for number in (0, 1, 2, 3, 10)] == [True, False, True, True, True]


def test_what_is_wanted_or_lent_is_nobody_elses(pool: BlockPool, one: MemoryFile) -> None:
    claimed = filled(pool, one, 0, 3)
    assert isinstance(one.held, HeldBlocks)
    lent = one.held.lend(10, 0)
    assert pool.claim(one, 3, 2, 2) is None
    assert len(pool.claim(one, 3, 2, 1) or []) == 1
    del claimed
    assert pool.claim(one, 5, 4, 4) is None
    assert lent is not None
    assert lent.read(10, 0) == stamp(one, 0)[:10]
    del lent
    assert len(pool.claim(one, 5, 4, 4) or []) == 4


def test_who_gets_too_little_keeps_nothing(pool: BlockPool, one: MemoryFile) -> None:
    kept = filled(pool, one, 0, 2)
    assert pool.claim(one, 2, 3, 3) is None
    assert isinstance(one.held, HeldBlocks)
    assert not one.held.awaits(10, 2 * BLOCK_BYTES)
    assert len(kept) == 2
    kept.clear()
    assert pool.claim(one, 10, BLOCKS + 1, BLOCKS + 1) is None
    assert holds(one, 0)  # what cannot be had pushes nothing out


async def test_a_block_that_nobody_could_read_is_tried_by_the_next(pool: BlockPool, one: MemoryFile) -> None:
    answers = [UNREAD, 7]

    async def read(piece: PooledSlice) -> int | None:
        await asyncio.sleep(0)
        return answers.pop(0)

    claimed = [block for _ in range(3) for block in pool.claim(one, 1, 1, 1) or []]
    assert await asyncio.gather(*(block.fill(read) for block in claimed)) == [0, 7, 0]


def test_what_was_claimed_and_not_read_is_free_again(pool: BlockPool, one: MemoryFile) -> None:
    claimed = pool.claim(one, 0, BLOCKS, BLOCKS)
    assert isinstance(one.held, HeldBlocks)
    assert one.held.awaits(10, 3 * BLOCK_BYTES)
    assert one.held.read(10, 3 * BLOCK_BYTES) is None
    del claimed
    assert len(pool.claim(one, 7, BLOCKS, BLOCKS) or []) == BLOCKS
    assert not one.held.awaits(10, 3 * BLOCK_BYTES)


def test_who_wants_what_is_held_does_not_read_it_again(pool: BlockPool, one: MemoryFile) -> None:
    place = filled(pool, one, 0, 1)[0].block.place
    (again,) = pool.claim(one, 0, 1, 1) or []
    assert again.block.place == place
    assert again.block.length == BLOCK_BYTES


def test_a_write_to_the_file_makes_all_of_it_forgotten(pool: BlockPool, one: MemoryFile) -> None:
    changes: list[Callable[[], None]] = [partial(one.pwritev, [b"x"], 0), partial(one.truncate, 0), one.reread]
    for change in changes:
        claimed = filled(pool, one, 0, BLOCKS)
        change()
        assert one.held is None
        assert len(claimed) == BLOCKS  # who sends from it still can, and who reads into it hurts nobody
        assert pool.claim(one, 0, 1, 1) is None
        claimed.clear()
        assert not holds(one, 0)


def test_bytes_of_several_blocks_come_in_parts(pool: BlockPool, one: MemoryFile) -> None:
    filled(pool, one, 0, 3)
    assert isinstance(one.held, HeldBlocks)
    lent = one.held.lend(BLOCK_BYTES + 20, BLOCK_BYTES - 10)
    assert lent is not None
    assert [length for _, length in lent.parts(BLOCK_BYTES + 20, BLOCK_BYTES - 10)] == [10, BLOCK_BYTES, 10]
    assert lent.read(15, BLOCK_BYTES - 5) == bytes(5) + stamp(one, 1)[:10]
    assert bytes(lent.view(100, BLOCK_BYTES - 5)) == bytes(5)
    both, seen = one.held.peek(20, BLOCK_BYTES - 10), one.held.peek(5, BLOCK_BYTES)
    assert both is not None
    assert seen is not None
    assert bytes(both) == bytes(10) + stamp(one, 1)[:10]
    assert len(seen) == BLOCK_BYTES  # as much as can be seen at once


def test_behind_the_end_of_the_file_nothing_is_held(pool: BlockPool, one: MemoryFile) -> None:
    (last,) = pool.claim(one, 0, 1, 1) or []
    put(pool, one, last, 100)
    assert isinstance(one.held, HeldBlocks)
    assert one.held.read(100, 0) is not None
    assert one.held.read(101, 0) is None
    assert one.held.lend(1, 100) is None


async def test_who_wants_what_somebody_else_reads_waits_for_it(pool: BlockPool, one: MemoryFile) -> None:
    reads, goes_on = deque[int](), asyncio.Event()

    async def read(piece: PooledSlice) -> int | None:
        reads.append(piece.number)
        await goes_on.wait()
        return 5

    claimed = [block for _ in range(3) for block in pool.claim(one, 1, 1, 1) or []]
    filling = [asyncio.create_task(block.fill(read)) for block in claimed]
    await asyncio.sleep(0)
    filling[1].cancel()  # who goes away while he waits takes nothing with him
    goes_on.set()
    assert await filling[0] == 5
    assert await filling[2] == 0
    assert list(reads) == [1]
    assert isinstance(one.held, HeldBlocks)
    assert one.held.read(5, BLOCK_BYTES) is not None


def test_memory_that_nobody_uses_is_given_back(pool: BlockPool, one: MemoryFile) -> None:
    claimed = filled(pool, one, 0, 2)
    filled(pool, one, 2, 1)
    assert pool.give_back()
    assert not pool.give_back()
    assert [holds(one, number) for number in range(3)] == [True, True, False]
    del claimed
    assert [pool.give_back() for _ in range(3)] == [True, True, False]
    assert pool.held_bytes == 0
    assert not any(pool.memory)


def test_a_file_that_was_deleted_is_not_kept(pool: BlockPool) -> None:
    file = new_file(MemoryFilesystem())
    filled(pool, file, 0, 2)
    gone = weakref.ref(file)
    del file
    gc.collect()
    assert gone() is None
    assert len(pool.claim(new_file(MemoryFilesystem()), 0, BLOCKS, BLOCKS) or []) == BLOCKS


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.integers(0, 2), st.integers(0, 6)),
        st.tuples(st.just("lend"), st.integers(0, 2), st.integers(0, 6)),
        st.tuples(st.sampled_from(["drop", "end", "arrive", "back"]), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("write"), st.integers(0, 2), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_what_is_lent_is_what_the_file_had_there(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is claimed, read, lent, dropped, forgotten and given back in between."""
    pool, filesystem = BlockPool(BLOCKS * BLOCK_BYTES), MemoryFilesystem()
    files = [new_file(filesystem, number) for number in range(3)]
    go_through(steps, pool, files)
    assert len(pool.claim(files[0], 10, BLOCKS, BLOCKS) or []) == BLOCKS  # nothing stays wanted or lent


def go_through(steps: list[tuple[str, int, int]], pool: BlockPool, files: list[MemoryFile]) -> None:
    wanted: list[tuple[MemoryFile, PooledSlice]] = []
    loans: list[tuple[bytes, int, PooledBytes]] = []
    for step, which, number in steps:
        if step == "claim":
            wanted += [(files[which], block) for block in pool.claim(files[which], number, 2, 1) or []]
        elif step == "lend":
            held = files[which].held
            loan = held.lend(12, number * BLOCK_BYTES) if isinstance(held, HeldBlocks) else None
            if isinstance(loan, PooledBytes):
                loans.append((stamp(files[which], number)[:12], number, loan))
        elif step == "drop" and wanted:
            wanted.pop(which % len(wanted))
        elif step == "end" and loans:
            loans.pop(which % len(loans))
        elif step == "arrive" and wanted:
            file, block = wanted[which % len(wanted)]
            if block.block.length < 0:
                put(pool, file, block)
        elif step == "back":
            pool.give_back()
        elif step == "write":
            files[which].truncate(0)
        for content, place, loan in loans:
            assert loan.read(len(content), place * BLOCK_BYTES) == content

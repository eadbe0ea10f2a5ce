"""Memory of its own for who reads cold data by the gigabyte, shared with the process that reads it from the disk.

What goes through the page cache pushes out what others read there, and each of its pages is made, mapped and reclaimed
for a single use; all that is work in the kernel that who tails the log may have to wait for. Databases keep large scans
in a ring of a few buffers for the same reason. Here it is a pool of blocks of a mebibyte. The disk writes into them
past the page cache (O_DIRECT), the process sends from them, and the least recently used is the next to be filled.
Blocks that are being filled, or sent from, are pinned.

Everything here happens in the event loop, but that a loan may end in any thread.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakSet

from tailrace.log.filesystem.port import File
from tailrace.log.read import Slice

BLOCK_BYTES: Final = 1_048_576
_WINDOW_BYTES: Final = 4_194_304
UNREAD: Final = -1


class Block:
    """A place in the pool's memory, and how many bytes of a file it holds."""

    __slots__ = ("filling", "length", "pins", "place", "used")

    def __init__(self, place: int) -> None:
        self.place = place
        self.length = UNREAD
        self.pins = 0
        self.used = False  # its memory was written to, and not given back
        self.filling: asyncio.Future[None] | None = None  # while somebody reads it from the disk


class PooledBytes:
    """Bytes of one file that stay where they are until it is gone: BorrowedBytes."""

    __slots__ = ("_blocks", "_first", "_pool")

    def __init__(self, pool: BlockPool, first: int, blocks: list[Block]) -> None:
        self._pool = pool
        self._first = first  # the number of the first block
        self._blocks = blocks
        for block in blocks:
            pool.pin(block)

    def parts(self, length: int, position: int) -> list[tuple[int, int]]:
        """As BorrowedBytes.parts."""
        found = []
        while length > 0:
            number, within = divmod(position, BLOCK_BYTES)
            count = min(length, BLOCK_BYTES - within)
            found.append((self._blocks[number - self._first].place + within, count))
            position += count
            length -= count
        return found

    def view(self, length: int, position: int) -> memoryview:
        """As BorrowedBytes.view."""
        place, count = self.parts(length, position)[0]
        return self._pool.memory[place : place + count]

    def read(self, length: int, position: int) -> bytes:
        """As BorrowedBytes.read."""
        memory = self._pool.memory
        return b"".join([memory[place : place + count] for place, count in self.parts(length, position)])

    def __del__(self) -> None:
        self._pool.returned.extend(self._blocks)


class HeldBlocks:
    """What the pool holds of one file (File.held), which it does not know: so one that was deleted is not kept."""

    __slots__ = ("blocks", "pool", "refused")

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.blocks: dict[int, Block] = {}
        self.refused = False  # it cannot be read past the page cache

    def read(self, length: int, position: int) -> bytes | None:
        """A copy, or None where not all of it is held."""
        loan = self.lend(length, position)
        return None if loan is None else loan.read(length, position)

    def peek(self, length: int, position: int) -> memoryview | None:
        """So many bytes and perhaps more, uncopied: only to be looked at before anything else happens."""
        number, within = divmod(position, BLOCK_BYTES)
        block = self.blocks.get(number)
        if block is None or within + length > block.length:
            loan = self.lend(length, position)
            return None if loan is None else memoryview(loan.read(length, position))
        return self.pool.memory[block.place + within : block.place + block.length]

    def lend(self, length: int, position: int) -> PooledBytes | None:
        """A loan of these bytes; None where not all of them are held."""
        first, last, blocks = position // BLOCK_BYTES, (position + length - 1) // BLOCK_BYTES, []
        for number in range(first, last + 1):
            block = self.blocks.get(number)
            if block is None or block.length < min(BLOCK_BYTES, position + length - number * BLOCK_BYTES):
                return None
            blocks.append(block)
        return PooledBytes(self.pool, first, blocks) if blocks else None

    def awaits(self, length: int, position: int) -> bool:
        """Whether some of it is being read from the disk."""
        self.pool.take_back()
        blocks = self.blocks
        numbers = range(position // BLOCK_BYTES, (position + length - 1) // BLOCK_BYTES + 1)
        return any((block := blocks.get(number)) is not None and block.length == UNREAD for number in numbers)

    def refuse(self) -> None:
        """All of the file goes through the page cache from now on."""
        self.refused = True
        self.blocks = {}


def lent(piece: Slice) -> PooledBytes | None:
    """The bytes of the slice, if the pool holds all of them; they stay there as long as the loan is held."""
    held = piece.file.held
    return held.lend(piece.length, piece.position) if isinstance(held, HeldBlocks) and piece.length else None


class PooledSlice(Slice):
    """A block of a file to be read into the pool; its place is kept for it as long as it is wanted."""

    __slots__ = ("_lent", "block", "held", "number")

    def __init__(self, file: File, held: HeldBlocks, number: int, block: Block) -> None:
        super().__init__(file, number * BLOCK_BYTES, BLOCK_BYTES)
        self.held = held
        self.number = number
        self.block = block
        self._lent = PooledBytes(held.pool, number, [block])

    @property
    def missing(self) -> bool:
        """Whether it is not there, or not yet."""
        return self.block.length == UNREAD

    async def fill(self, read: Callable[[PooledSlice], Awaitable[int | None]]) -> int:
        """Returns when the block is there, or cannot be had; how many bytes were read for that.

        `read` says how many there are: UNREAD if it cannot now, None if it never can.

        Who wants what somebody else is reading just waits for it.
        """
        block = self.block
        while block.filling is not None:
            await asyncio.shield(block.filling)
        if block.length != UNREAD or self.held.refused:
            return 0
        block.used = True
        block.filling = filling = asyncio.get_running_loop().create_future()
        try:
            length = await read(self)
        finally:
            block.filling = None
            filling.set_result(None)
        if length is None:
            self.held.refuse()
            return 0
        block.length = length
        return max(0, length)


class BlockPool:
    """Blocks of a mebibyte, as many as fit; memory is taken as it is used."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes // BLOCK_BYTES * BLOCK_BYTES
        self.descriptor = os.memfd_create("tailrace-cold-reads")
        try:
            os.ftruncate(self.descriptor, self.size_bytes)
            self._map = mmap.mmap(self.descriptor, self.size_bytes)
        except OSError:
            self.close()
            raise
        self.memory = memoryview(self._map)
        self.returned: deque[Block] = deque()  # what loans that are over had pinned
        self._empty = [Block(place) for place in reversed(range(0, self.size_bytes, BLOCK_BYTES))]
        self._homes: dict[Block, tuple[HeldBlocks, int]] = {}
        self.readers: WeakSet[object] = WeakSet()  # who claimed something
        self._idle: OrderedDict[Block, None] = OrderedDict()  # held and not pinned, least recently used first

    @property
    def held_bytes(self) -> int:
        """What it holds of files."""
        return len(self._homes) * BLOCK_BYTES

    def window(self) -> int:
        """How far ahead of itself a reader may claim, so that there is place for all of them."""
        return min(_WINDOW_BYTES, max(BLOCK_BYTES, self.size_bytes // (2 * max(1, len(self.readers)))))

    def held(self, file: File) -> HeldBlocks:
        """What it holds of a file, from now on."""
        held = file.held
        if not isinstance(held, HeldBlocks):
            file.held = held = HeldBlocks(self)
        return held

    def claim(self, file: File, first: int, count: int, least: int) -> list[PooledSlice] | None:
        """The blocks with these numbers, to be filled where they are not; None where there is no place for `least`."""
        held, claimed = self.held(file), list[PooledSlice]()
        if held.refused or least * BLOCK_BYTES > self.size_bytes:
            return None
        for number in range(first, first + count):
            block = held.blocks.get(number)
            if block is None:
                block = self._place()
                if block is None:
                    break
                held.blocks[number] = block
                self._homes[block] = held, number
            claimed.append(PooledSlice(file, held, number, block))
        if len(claimed) >= least:
            return claimed
        claimed.clear()
        self.take_back()
        return None

    def _place(self) -> Block | None:
        self.take_back()
        if self._empty:
            return self._empty.pop()
        if not self._idle:
            return None
        block, _ = self._idle.popitem(last=False)
        self._forget(block)
        return block

    def _forget(self, block: Block) -> None:
        held, number = self._homes.pop(block)
        if held.blocks.get(number) is block:
            del held.blocks[number]
        block.length = UNREAD

    def pin(self, block: Block) -> None:
        """It is not to be given to anybody else."""
        block.pins += 1
        self._idle.pop(block, None)

    def take_back(self) -> None:
        """What nobody wants or sends from any more may be given to others."""
        returned = self.returned
        while returned:
            block = returned.popleft()
            block.pins -= 1
            if block.pins:
                continue
            if block.length == UNREAD:
                self._forget(block)
                self._empty.append(block)
            else:
                self._idle[block] = None

    def give_back(self) -> bool:
        """Gives the system the memory of one block that nobody uses, as long as there is one."""
        self.take_back()
        if self._idle:
            block, _ = self._idle.popitem(last=False)
            self._forget(block)
            self._empty.insert(0, block)  # the last to be used again
        else:
            found = next((block for block in self._empty if block.used), None)
            if found is None:
                return False
            block = found
        block.used = False
        self._map.madvise(mmap.MADV_REMOVE, block.place, BLOCK_BYTES)
        return True

    def close(self) -> None:
        """Nobody reads into it any more; what is still lent stays readable."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

"""Who reads cold data, and how its answers are sent.

Whoever reads on where the disk had to be waited for gets everything there by the same way, also what the kernel has
read ahead meanwhile: its next reading ahead is the work of whoever touches what the last one brought, much of it where
read_ahead_kb is large, and the event loop has no time for that. What is asked for at once grows with what was read in
one go, as the kernel's own reading ahead does.

Who goes on for long is a scan. The page cache has no use for what is read once, so that scans are read into a pool
(pool.py), some mebibytes ahead of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tailrace.log.read import WAIT, Records, Slice
from tailrace.net.transport.outbox import Carrier, PacedSlice
from tailrace.wire.pieces import Bytes, Piece
from tailrace_broker.cold_reads.memory import IN_MEMORY
from tailrace_broker.cold_reads.pool import BLOCK_BYTES, BlockPool, HeldBlocks, PooledSlice, lent

# Below it a copy is cheaper than the calls (dataplane.md).
_SENDFILE_BYTES: Final = 65_536
# A mebibyte is 300 us of the event loop, which tailing clients wait for; each slice is a turn more of it for them.
_SLICE_BYTES: Final = 131_072
_FIRST_AHEAD_BYTES: Final = 1_048_576
_MOST_AHEAD_BYTES: Final = 8_388_608  # of all files of a connection together
# Beyond what the kernel may have read ahead: what lies there tells whether the data is still cold.
_FAR_BYTES: Final = 16_777_216
_MOST_FILES: Final = 64  # of one connection; the one that began first is forgotten
_SCAN_BYTES: Final = 16_777_216  # brought for a connection, and it is a scan
_LOOK_BYTES: Final = 16_384  # behind an answer's end, for whether the next batch follows
_COLD: Final = "cold reader"

_Known = TypeVar("_Known")
_Begin = Callable[[Sequence[Slice], Callable[[OSError | None], None]], object]


class ColdReader:
    """A connection that reads cold data: up to where that was brought into the page cache for it, for each file.

    Files are known by their identity alone, so that one that was deleted is not kept; a mistaken one costs a wait.
    """

    __slots__ = ("__weakref__", "_begin", "_brought_bytes", "_filling", "_runs", "_scans", "carrier")

    def __init__(self, carrier: Carrier | None = None, begin: _Begin | None = None) -> None:
        self.carrier = carrier
        self._begin = begin
        self._runs: dict[int, tuple[int, int]] = {}  # (up to where, how much was asked for beyond the answer)
        self._scans: dict[int, int] = {}  # up to where blocks of the pool were claimed
        self._brought_bytes = 0
        self._filling = False  # blocks of the pool for its next answers

    def reads(self, piece: Slice) -> bool:
        """Whether the file is one that it reads cold data of."""
        return id(piece.file) in self._runs or id(piece.file) in self._scans

    def scans(self, piece: Slice) -> bool:
        """Whether the file is one that it reads into the pool."""
        return id(piece.file) in self._scans

    def must_wait(self, piece: Slice) -> bool:
        """Whether it goes on in such a file, beyond what was brought, or its next answer of that size would.

        The last batch's end is found by a look behind it, which is to be there by then, too.
        """
        if id(piece.file) in self._scans:
            return piece.length > 0 and lent(piece) is None
        run = self._runs.get(id(piece.file))
        return run is not None and piece.position + 2 * piece.length > run[0] >= piece.position - _MOST_AHEAD_BYTES

    def wants(self, piece: Slice, pool: BlockPool | None = None) -> Sequence[Slice]:
        """What is to be brought for this piece: more than it, if it goes on. Forgets a file that is cold no more.

        pool: what a scan is read into, if the piece may be.
        """
        file = id(piece.file)
        to, ahead = self._runs.pop(file, (-1, 0))
        scanned = self._scans.pop(file, -1)
        try:
            end, size = piece.position + piece.length, piece.file.stat().size_bytes
            looked = scanned // _FAR_BYTES == end // _FAR_BYTES
            if not looked and piece.file.resident(max(0, min(end + _FAR_BYTES, size) - 1)):
                self._brought_bytes += piece.length  # and the kernel more
                return [piece]
        except OSError:
            return [piece]  # who brings it hears of it
        blocks: list[PooledSlice] | None = None
        if pool is not None and self._brought_bytes >= _SCAN_BYTES:
            blocks = self._claim(pool, piece, piece.position, min(end + _LOOK_BYTES, size))
        if blocks:
            self._scans[file] = blocks[-1].position + BLOCK_BYTES
            _forget_first(self._scans)
            return blocks
        goes_on = piece.position <= to <= end + piece.length
        ahead = min(max(_FIRST_AHEAD_BYTES, 2 * ahead), _MOST_AHEAD_BYTES // (1 + len(self._runs))) if goes_on else 0
        end = max(end, min(end + ahead, size))
        self._brought_bytes += end - piece.position
        self._runs[file] = end, ahead
        _forget_first(self._runs)
        return [Slice(piece.file, piece.position, end - piece.position)]

    def soon_go_on(self, piece: Slice) -> None:
        """Has more read into the pool while this piece of a scan is sent; in a turn of its own, for others' sake."""
        if id(piece.file) in self._scans and not self._filling:
            asyncio.get_running_loop().call_soon(self._go_on, piece)

    def _go_on(self, piece: Slice) -> None:
        to, held = self._scans.get(id(piece.file)), piece.file.held
        if to is None or self._filling or self._begin is None or not isinstance(held, HeldBlocks):
            return
        end, window = piece.position + piece.length, max(piece.length, held.pool.window())
        to = max(to, end)
        if to - end >= window // 2:
            return
        try:
            size = piece.file.stat().size_bytes
            last = min(end + window, size)
            if to // _FAR_BYTES != last // _FAR_BYTES and piece.file.resident(min(last + _FAR_BYTES, size) - 1):
                del self._scans[id(piece.file)]  # it is cold no more
                return
        except OSError:
            return  # who waits for it hears of it
        blocks = self._claim(held.pool, piece, to, last, least=1) if to < last else None
        if blocks:
            self._scans[id(piece.file)] = blocks[-1].position + BLOCK_BYTES
            self._filling = True
            self._begin(blocks, self._filled)

    def _filled(self, _: OSError | None) -> None:
        self._filling = False

    def _claim(
        self, pool: BlockPool, piece: Slice, start: int, end: int, least: int | None = None
    ) -> list[PooledSlice] | None:
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        count = last - first + 1
        pool.readers.add(self)
        return pool.claim(piece.file, first, count, count if least is None else least)


def _forget_first(known: dict[int, _Known]) -> None:
    if len(known) > _MOST_FILES:
        del known[next(iter(known))]


def cold_reader(state: dict[str, Any], carrier: Carrier | None = None, begin: _Begin | None = None) -> ColdReader:
    """Of a connection, known by its state, that has to wait for the disk."""
    reader = state.get(_COLD)
    if reader is None:
        reader = state[_COLD] = ColdReader(carrier, begin)
    return reader


def scans(piece: Slice, state: dict[str, Any]) -> bool:
    """Whether a connection, known by its state, is reading the file into the pool."""
    reader: ColdReader | None = state.get(_COLD)
    return reader is not None and reader.scans(piece)


def loaded(records: Records, sends_files: bool, state: dict[str, Any], *, wait: bool = False) -> Piece | None:
    """The records as they will be sent: a copy, or a slice of the file or of the pool.

    To a connection that reads cold data the worker sends them, or else the event loop in turns. None where the disk
    would have to be waited for and `wait` is not set.
    """
    reader: ColdReader | None = state.get(_COLD)
    if reader is not None and not wait and reader.must_wait(records):
        return None
    if not sends_files or records.length < _SENDFILE_BYTES:
        sent = _copied(records, wait)
        if sent is not None and reader is not None and reader.reads(records):
            reader.soon_go_on(records)
        return sent
    loan = lent(records)
    if loan is None and not wait and not records.file.cached(records.length, records.position):
        return None
    if reader is not None and reader.reads(records):
        reader.soon_go_on(records)
        return PacedSlice(records, _SLICE_BYTES, reader.carrier, loan)
    return records if loan is None else PacedSlice(records, _SLICE_BYTES, None, loan)


def _copied(records: Records, wait: bool) -> Bytes | None:
    length = records.length
    if records.data is not None:
        return memoryview(records.data)[:length]
    if not length:
        return b""
    return (WAIT if wait else IN_MEMORY).read(records.file, length, records.position)

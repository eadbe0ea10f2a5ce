"""The aborted transactions of one segment, as its .txnindex file holds them: collected, cut, saved."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.log.filesystem import File, Filesystem, read_file
from tailrace.log.transactions import ENTRY_SIZE, AbortedTransaction, decode, encode

if TYPE_CHECKING:
    from tailrace.log.segment import Segment

_ENTRY: Final = Struct(">hqqqq")  # version, producer id, first, last, last stable offset


class TransactionIndex:
    """Entries grow in their last offset. The bytes stay in memory: 34 for every aborted transaction."""

    __slots__ = ("_content", "_saved_bytes", "named")

    def __init__(self, *, named: bool = False) -> None:
        self.named = named  # whether the file is there, as far as its directory is known to be synced
        self._content = bytearray()
        self._saved_bytes = 0

    def __len__(self) -> int:
        return len(self._content) // ENTRY_SIZE

    @classmethod
    def load(cls, filesystem: Filesystem, path: str) -> TransactionIndex:
        """What the file holds; FileNotFoundError, or DamagedIndex where it cannot be true."""
        index = cls(named=True)
        index._content += read_file(filesystem, path)
        index._saved_bytes = len(index._content)
        decode(index._content)
        return index

    def append(self, aborted: AbortedTransaction) -> None:
        """Adds the transaction whose abort marker was just appended."""
        self._content += encode([aborted])

    def truncate(self, offset: int) -> None:
        """Forgets the transactions whose marker is at or after offset."""
        entries = decode(self._content)
        while entries and entries[-1].last_offset >= offset:
            entries.pop()
        del self._content[len(entries) * ENTRY_SIZE :]
        self._saved_bytes = min(self._saved_bytes, len(self._content))

    def save(self, filesystem: Filesystem, path: str) -> File | None:
        """Writes what the file lacks and cuts what it has too much, unsynced; None if there is none and needs none."""
        size = len(self._content)
        if not self.named and not size:
            return None
        file = filesystem.open(path, create=True)
        start = min(self._saved_bytes, size)
        if file.stat().size_bytes > start:
            file.truncate(start)
        if size > start:
            file.pwritev([bytes(self._content[start:])], start)
        self.named, self._saved_bytes = True, size
        return file

    def collect(self, fetch_offset: int, upper_offset: int) -> tuple[list[tuple[int, int]], bool]:
        """The (producer id, first offset) whose records may lie in [fetch_offset, upper_offset), by their markers.

        The second says that no later segment has more of them: from there on everything below upper_offset is decided.
        """
        found = []
        for _, producer_id, first, last, stable in _ENTRY.iter_unpack(self._content):
            if last >= fetch_offset and first < upper_offset:
                found.append((producer_id, first))
            if stable >= upper_offset:
                return found, True
        return found, False


def collect(segments: Iterable[Segment], fetch_offset: int, upper_offset: int) -> list[tuple[int, int]]:
    """As TransactionIndex.collect, over the segments from the one that holds fetch_offset on."""
    found: list[tuple[int, int]] = []
    for segment in segments:
        if segment.aborted is not None:
            more, complete = segment.aborted.collect(fetch_offset, upper_offset)
            found += more
            if complete:
                break
    return found

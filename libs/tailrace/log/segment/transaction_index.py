"""The aborted transactions of one segment, as its .txnindex file holds them: collected, cut, saved.

Kafka's entries carry no check, and a flipped bit in a first offset would show records as committed that were not. So
there is a .txnsums file beside it, four bytes for each entry: Kafka passes over a file of that name. An entry without a
sum (Kafka wrote it) is believed, one with another is not, and the index is then made again from the batches.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from tailrace.log.filesystem.port import File, Filesystem, read_file
from tailrace.log.segment.transactions import ENTRY_SIZE, AbortedTransaction, DamagedIndex, decode, encode
from tailrace.records.batch import Bytes, checksum

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
TRANSACTION_SUMS_SUFFIX: Final = ".txnsums"
_ENTRY: Final = Struct(">hqqqq")  # version, producer id, first, last, last stable offset
_SUM_BYTES: Final = 4


def sums_of(content: Bytes) -> bytes:
    """The CRC-32C of each entry."""
    view = memoryview(content)
    starts = range(0, len(view), ENTRY_SIZE)
    return b"".join([checksum(view[start : start + ENTRY_SIZE]).to_bytes(_SUM_BYTES, "big") for start in starts])


def sums_path(path: str) -> str:
    """Where the sums of the index at path are, also while the segment has another suffix."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/{name.replace(TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX)}"


def sums_agree(content: Bytes, sums: bytes) -> bool:
    """Whether the sums there are, which may be fewer than the entries or more, are those of the entries."""
    summed = min(len(content) // ENTRY_SIZE, len(sums) // _SUM_BYTES)
    return sums[: summed * _SUM_BYTES] == sums_of(memoryview(content)[: summed * ENTRY_SIZE])


def read_index(filesystem: Filesystem, path: str) -> tuple[bytes, int]:
    """The bytes of an index and how many of its entries have sums; FileNotFoundError, DamagedIndex."""
    content = read_file(filesystem, path)
    try:
        sums = read_file(filesystem, sums_path(path))
    except FileNotFoundError:
        sums = b""
    if not sums_agree(content, sums):
        raise DamagedIndex("an entry is not what its sum was made of")
    return content, min(len(content) // ENTRY_SIZE, len(sums) // _SUM_BYTES)


class TransactionIndex:
    """Entries grow in their last offset. The bytes stay in memory: 34 for every aborted transaction."""

    __slots__ = ("_content", "_saved_bytes", "_saved_sums", "named")

    def __init__(self, *, named: bool = False) -> None:
        self.named = named  # whether the file is there, as far as its directory is known to be synced
        self._content = bytearray()
        self._saved_bytes = 0
        self._saved_sums = 0  # entries

    def __len__(self) -> int:
        return len(self._content) // ENTRY_SIZE

    @classmethod
    def load(cls, filesystem: Filesystem, path: str) -> TransactionIndex:
        """What the file holds; FileNotFoundError, or DamagedIndex where it cannot be true."""
        index = cls(named=True)
        content, index._saved_sums = read_index(filesystem, path)
        index._content += content
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
        self._saved_sums = min(self._saved_sums, len(entries))

    def save(self, filesystem: Filesystem, path: str) -> tuple[File, ...]:
        """Writes what the file and its sums lack and cuts what they have too much, unsynced; nothing if none is needed.

        After a crash in between either has entries that the other lacks, and none that the other contradicts.
        """
        size = len(self._content)
        if not self.named and not size:
            return ()
        file = _continue(filesystem, path, self._content, self._saved_bytes)
        sums = sums_of(self._content)
        sums_file = _continue(filesystem, sums_path(path), sums, self._saved_sums * _SUM_BYTES)
        self.named, self._saved_bytes, self._saved_sums = True, size, len(self)
        return file, sums_file

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


def _continue(filesystem: Filesystem, path: str, content: Bytes, saved_bytes: int) -> File:
    """Makes a file hold content, of which it has the first saved_bytes."""
    file = filesystem.open(path, create=True)
    start = min(saved_bytes, len(content))
    if file.stat().size_bytes > start:
        file.truncate(start)
    if len(content) > start:
        file.pwritev([bytes(content[start:])], start)
    return file

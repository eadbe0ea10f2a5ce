"""Kafka's sparse indexes of one segment, held as arrays and written when a segment is flushed, rolled or closed.

An offset index entry is (last offset of a batch - base offset, position of that batch), two big-endian int32: read as
one int64 it sorts by offset and by position at once. A time index entry (int64 timestamp, int32 relative offset) says
that no batch up to and including that offset has a later timestamp.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final

from tailrace.log.filesystem.port import File, Filesystem, read_file

INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12
_POSITION_MASK: Final = 0xFFFFFFFF
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_LOWEST_OFFSETS: Final = -(2**31), -(2**31)  # the top bit alone, of each number in an entry
_LOWEST_TIMES: Final = -(2**63), -(2**31)
_COMPARED_AT_ONCE: Final = 1024  # entries: with more, the numbers leave the processor's nearest cache
_position: Final = _POSITION_MASK.__and__  # of an entry; no call of Python's own for each step of a search


class OffsetIndex:
    """From an offset to the position of a batch at or before it."""

    __slots__ = ("_entries", "_saved", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._entries = array("q")
        self._saved = 0

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, last_offset: int, position: int) -> None:
        """Adds the batch at position; offsets and positions only grow."""
        self._entries.append((last_offset - self.base_offset) << 32 | position)

    def entry(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of the last indexed batch that ends at or before offset; (-1, 0) if there is none."""
        return self._entry(bisect_right(self._entries, (offset - self.base_offset) << 32 | _POSITION_MASK))

    def entry_at(self, position: int) -> tuple[int, int]:
        """(last offset, position) of the last indexed batch that is not above position; (-1, 0) if there is none."""
        return self._entry(bisect_right(self._entries, position, key=_position))

    def _entry(self, count: int) -> tuple[int, int]:
        if not count:
            return -1, 0
        entry = self._entries[count - 1]
        return self.base_offset + (entry >> 32), entry & _POSITION_MASK

    def floor_position(self, position: int) -> int:
        """The greatest indexed batch position that is not above position; 0 if there is none."""
        return self.entry_at(position)[1]

    def last(self) -> tuple[int, int]:
        """(last offset, position) of the last entry; the index must not be empty."""
        entry = self._entries[-1]
        return self.base_offset + (entry >> 32), entry & _POSITION_MASK

    def truncate(self, position: int) -> None:
        """Forgets the batches at and after position."""
        while self._entries and self._entries[-1] & _POSITION_MASK >= position:
            self._entries.pop()
        self._saved = min(self._saved, len(self._entries))

    def load(self, filesystem: Filesystem, path: str, size_bytes: int) -> bool:
        """Reads the entries that can be true of a segment of size_bytes; False if the file is missing or damaged."""
        try:
            data = read_file(filesystem, path)
        except FileNotFoundError:
            return False
        valid = _rising(data, _OFFSET_ENTRY, _LOWEST_OFFSETS)
        entries = _big_endian("q", data[: valid * OFFSET_ENTRY_SIZE])
        while entries and entries[-1] & _POSITION_MASK >= size_bytes:
            entries.pop()
        intact = len(data) == len(entries) * OFFSET_ENTRY_SIZE
        self._entries = entries
        self._saved = len(entries) if intact else 0
        return intact

    def save(self, filesystem: Filesystem, path: str) -> File:
        """Writes the entries that the file does not have yet; the returned file is not synced."""
        file = filesystem.open(path, create=True)
        rest = self._entries[self._saved :]
        if sys.byteorder == "little":
            rest.byteswap()
        _append_from(file, self._saved * OFFSET_ENTRY_SIZE, rest.tobytes())
        self._saved = len(self._entries)
        return file


class TimeIndex:
    """From a timestamp to the offset up to which nothing is later."""

    __slots__ = ("_offsets", "_saved", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("q")  # as in the file, from base_offset
        self._saved = 0

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if timestamp is later than the last one's; none for -1, as in Kafka: there is no timestamp."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            # Another thread may look into it: what it finds in the first has its offset in the second.
            self._offsets.append(offset - self.base_offset)
            self._timestamps.append(timestamp)

    def entry(self, timestamp: int) -> tuple[int, int]:
        """The last (timestamp, offset) whose timestamp is not above timestamp, (-1, base offset) if there is none."""
        index = bisect_right(self._timestamps, timestamp)
        return (self._timestamps[index - 1], self.base_offset + self._offsets[index - 1]) if index else self._none

    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, (-1, base offset) if there is none."""
        return (self._timestamps[-1], self.base_offset + self._offsets[-1]) if self._timestamps else self._none

    @property
    def _none(self) -> tuple[int, int]:
        return -1, self.base_offset

    def truncate(self, offset: int) -> None:
        """Forgets the entries at and after offset."""
        while self._offsets and self._offsets[-1] >= offset - self.base_offset:
            self._offsets.pop()
            self._timestamps.pop()
        self._saved = min(self._saved, len(self._offsets))

    def load(self, filesystem: Filesystem, path: str) -> bool:
        """Reads the entries up to the first that cannot be true; False if the file is missing or damaged."""
        try:
            data = read_file(filesystem, path)
        except FileNotFoundError:
            return False
        valid = _rising(data, _TIME_ENTRY, _LOWEST_TIMES)
        words = array("i", data[: valid * TIME_ENTRY_SIZE])
        offsets = array("i", bytes(self._offsets.itemsize * valid))
        offsets[1::2] = words[2::3]
        del words[2::3]
        self._timestamps, self._offsets = _big_endian("q", words.tobytes()), _big_endian("q", offsets.tobytes())
        intact = len(data) == valid * TIME_ENTRY_SIZE
        self._saved = len(self._timestamps) if intact else 0
        return intact

    def save(self, filesystem: Filesystem, path: str) -> File:
        """Writes the entries that the file does not have yet; the returned file is not synced."""
        file = filesystem.open(path, create=True)
        rest = zip(self._timestamps[self._saved :], self._offsets[self._saved :], strict=True)
        data = b"".join([_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in rest])
        _append_from(file, self._saved * TIME_ENTRY_SIZE, data)
        self._saved = len(self._timestamps)
        return file


def _big_endian(kind: str, data: bytes) -> array[int]:
    """Numbers of a file as an array."""
    numbers = array(kind, data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _rising(data: bytes, entry: Struct, lowest: tuple[int, int]) -> int:
    """How many entries from the first on hold no negative number, and each number larger than in the entry before.

    No loop in Python over all of them: a segment of a gigabyte has a quarter of a million, which the event loop waits
    for. A piece of the file is one large number, and so is the same piece one entry further on. A subtraction compares
    them: each number's top bit, set before, keeps it from borrowing of its neighbour, and stays where it was larger.
    """
    size, count = entry.size, len(data) // entry.size
    for at in range(0, count - 1, _COMPARED_AT_ONCE):
        pairs = min(_COMPARED_AT_ONCE, count - 1 - at)
        if at == 0 or pairs < _COMPARED_AT_ONCE:
            tops = int.from_bytes(entry.pack(*lowest) * pairs)
            tops_less_one = tops - int.from_bytes(entry.pack(1, 1) * pairs)
            rest = (1 << 8 * size * pairs) - 1
        both = int.from_bytes(data[at * size : (at + pairs + 1) * size])
        entries, following = both >> 8 * size, both & rest
        if (entries | following) & tops or (following + tops_less_one - entries) & tops != tops:
            return at + _rising_one_by_one(data[at * size : (at + pairs + 1) * size], entry)
    return count if count > 1 else _rising_one_by_one(data, entry)


def _rising_one_by_one(data: bytes, entry: Struct) -> int:
    before = (-1, -1)
    for at, numbers in enumerate(entry.iter_unpack(data[: len(data) - len(data) % entry.size])):
        if numbers[0] <= before[0] or numbers[1] <= before[1]:
            return at
        before = numbers
    return len(data) // entry.size


def _append_from(file: File, position: int, data: bytes) -> None:
    if file.stat().size_bytes > position:
        file.truncate(position)
    if data:
        file.pwritev([data], position)

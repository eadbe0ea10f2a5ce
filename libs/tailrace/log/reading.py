"""What a read of a log returns."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.log.filesystem import File
from tailrace.records.batch import Bytes


class Slice:
    """Bytes of one segment that stay valid while the slice is held, also if the segment is deleted meanwhile."""

    __slots__ = ("file", "length", "next_offset", "position")

    def __init__(self, file: File, position: int, length: int, next_offset: int = -1) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.next_offset = next_offset  # of what follows its batches in the log

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes by pread; give file.fileno(), position and length to sendfile instead where that is cheaper."""
        return self.file.pread(self.length, self.position) if self.length else b""

    def read_cached(self) -> Bytes | None:
        """As read, or None where the disk would have to be waited for."""
        return self.file.pread_cached(self.length, self.position) if self.length else b""

    def cached(self) -> bool:
        """Whether all of it is in the page cache, as far as a look at some of its pages tells."""
        return self.file.cached(self.length, self.position)

    def warm(self) -> None:
        """Brings it into the page cache, and asks for what a reader of the log will want next."""
        self.file.warm(self.length, self.position)


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ListOffsets)."""

    timestamp: int
    offset: int
    leader_epoch: int

"""A read of a log as a value, and the modes in which one gets the bytes of its files.

    Records     whole batches: a slice of one segment's file
    NeedsPages  bytes that the disk has to bring into memory first
    NeedsScan   a segment that another thread has to look through first

Only a mode that does not wait gets one of the last two, and reads again once the bytes are there or the scan has run.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, TypeAlias

from tailrace.log.filesystem.port import File
from tailrace.records.batch import Bytes


class Slice:
    """Bytes of one segment that stay valid while the slice is held, also if the segment is deleted meanwhile."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes. Give file.fileno(), position and length to sendfile instead where that is cheaper."""
        return self.file.pread(self.length, self.position) if self.length else b""


class Records(Slice):
    """Whole batches that follow one another."""

    __slots__ = ("closed", "data", "next_offset")

    def __init__(
        self,
        file: File,
        position: int,
        length: int,
        next_offset: int = -1,
        closed: bool = False,
        data: Bytes | None = None,
    ) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.next_offset = next_offset  # of what follows its batches in the log
        self.closed = closed  # nothing more is appended to the segment
        self.data = data  # the bytes, and perhaps more of them, where finding their end has read them

    def read(self) -> bytes:
        """As Slice.read."""
        if self.data is not None:
            return bytes(memoryview(self.data)[: self.length])
        return self.file.pread(self.length, self.position) if self.length else b""


class NeedsPages(NamedTuple):
    """Bytes of a segment that are not in memory."""

    slice: Slice
    closed: bool  # nothing more is appended to the segment


class SegmentScan(Protocol):
    """What another thread has to find out about a segment before it can be read (segment/view.py)."""

    done: bool
    failed: bool

    def take_up(self) -> bool:
        """The segment knows what was found out; False where that is not all there is to know."""
        ...


class NeedsScan(NamedTuple):
    """A segment whose indexes or damage no read in this mode can find out."""

    scan: SegmentScan


Needs: TypeAlias = NeedsPages | NeedsScan


class Missing(Exception):
    """What a read needs, on its way out of the segments; Log.read returns it."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs


class ReadMode:
    """The way in which a read gets the bytes of a file, and what it leaves to another thread."""

    __slots__ = ()
    waits = True  # for the disk, and for whatever takes long
    in_haste = False  # wants what costs little, and no scan either

    def read(self, file: File, length: int, position: int) -> Bytes | None:
        """The bytes, None where the disk would have to be waited for."""
        return file.pread(length, position)

    def look(self, file: File, length: int, position: int) -> Bytes | None:
        """As read, of the bytes and perhaps more that follow: only to be looked at before anything else happens."""
        return self.read(file, length, position)


class WaitingReads(ReadMode):
    """A read that is answered however long it takes."""

    __slots__ = ()

    def look(self, file: File, length: int, position: int) -> Bytes | None:
        """As ReadMode.look."""
        return file.pread(length, position)


class StoppableReads(ReadMode):
    """The same in a thread, until another one stops it."""

    __slots__ = ("_stopped",)

    def __init__(self) -> None:
        self._stopped = False

    def stop(self) -> None:
        """The result is not wanted any more. From any thread."""
        self._stopped = True

    def read(self, file: File, length: int, position: int) -> Bytes | None:
        """As ReadMode.read. Raises ReadStopped."""
        if self._stopped:
            raise ReadStopped
        return file.pread(length, position)


class ReadStopped(Exception):
    """A read whose result is not wanted any more."""


class CachedReads(ReadMode):
    """A read of what is in the page cache."""

    __slots__ = ()
    waits = False

    def read(self, file: File, length: int, position: int) -> Bytes | None:
        """As ReadMode.read."""
        return file.pread_cached(length, position)


class InHaste(CachedReads):
    """The same of some bytes, and of nothing else that takes long."""

    __slots__ = ("left_bytes",)
    in_haste = True

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes

    def read(self, file: File, length: int, position: int) -> Bytes | None:
        """As ReadMode.read."""
        self.left_bytes -= length
        return file.pread_cached(length, position) if self.left_bytes >= 0 else None


WAIT: Final = WaitingReads()
CACHED: Final = CachedReads()


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ListOffsets)."""

    timestamp: int
    offset: int
    leader_epoch: int

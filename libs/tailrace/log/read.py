"""What a read of a log returns."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from tailrace.log.filesystem.held_ranges import BorrowedBytes
from tailrace.log.filesystem.port import File
from tailrace.records.batch import Bytes


class Reader:
    """Who reads a log's segments now. Who does not wait for the disk gets NotCached where he would have to."""

    __slots__ = ("left_bytes", "stopped", "waits")

    def __init__(self) -> None:
        self.waits = True
        self.stopped = False  # gets NotCached, and nothing else
        self.left_bytes: float = inf  # what he may still look at before it takes too long: then NotCached as well

    @property
    def in_haste(self) -> bool:
        """Whether he wants what costs little and nothing else: all the rest somebody else does for him."""
        return self.left_bytes < inf

    def stop(self) -> None:
        """He does not want anything any more. From any thread."""
        self.stopped = True
        self.waits = False


class Slice:
    """Bytes of one segment that stay valid while the slice is held, also if the segment is deleted meanwhile."""

    __slots__ = (
        "closed",
        "data",
        "file",
        "length",
        "loan",
        "next_offset",
        "position",
        "unsettled",
    )

    def __init__(self, file: File, position: int, length: int, next_offset: int = -1, *, closed: bool = False) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.next_offset = next_offset  # of what follows its batches in the log
        self.closed = closed  # nothing more is appended to the segment
        self.loan: BorrowedBytes | None = None  # what it is sent from in place of the page cache
        # Looks at the headers, where nobody did yet, waiting for the disk or not: how many bytes are sound. None once
        # that is known.
        self.unsettled: Callable[[bool], int] | None = None
        self.data: Bytes | None = None  # itself and perhaps more, where who found its end has read it

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes by pread, CORRUPT_MESSAGE if they are no sound batches.

        Give file.fileno(), position and length to sendfile instead where that is cheaper, once it is settled.
        """
        self.settle()
        if self.data is not None:
            return bytes(memoryview(self.data)[: self.length])
        if self.loan is not None:
            return self.loan.read(self.length, self.position)
        return self.file.pread(self.length, self.position) if self.length else b""

    def read_cached(self) -> Bytes | None:
        """As read, or None or NotCached where the disk would have to be waited for."""
        if self.unsettled is not None and not self.cached():
            return None
        if self.data is not None:
            return memoryview(self.data)[: self.length]
        if not self.length:
            return b""
        if self.borrow():
            assert self.loan is not None
            return self.loan.read(self.length, self.position)
        return self.file.pread_cached(self.length, self.position)

    def cached(self) -> bool:
        """Whether all of it is in memory, as far as a look at some pages of the page cache tells. Raises NotCached."""
        if not self.borrow() and not self.file.cached(self.length, self.position):
            return False
        self.settle(wait=False)
        return True

    def borrow(self) -> bool:
        """Whether it lies in memory besides the page cache, and stays there as long as the slice is held."""
        if self.loan is None and self.length and (held := self.file.held) is not None:
            self.loan = held.lend(self.length, self.position)
        return self.loan is not None

    def settle(self, *, wait: bool = True) -> None:
        """Shortens it to the sound batches at its beginning; CORRUPT_MESSAGE if there are none. May read the disk."""
        if self.unsettled is not None:
            self.length = self.unsettled(wait)
            self.unsettled = None

    def warm(self) -> None:
        """Returns when it is in the page cache; the kernel reads ahead for who goes on behind it."""
        self.file.warm(self.length, self.position)


class SegmentScan(Protocol):
    """What another thread has to find out about a segment before it can be read (segment/view.py)."""

    done: bool
    failed: bool

    def take_up(self) -> bool:
        """The segment knows what was found out; False where that is not all there is to know."""
        ...


class NotCached(Exception):
    """The disk would have to be waited for, which the reader did not want.

    It may try again once `piece` is warm or, where it is a SegmentScan, done.
    """

    def __init__(self, piece: Slice | SegmentScan) -> None:
        what = f"{piece.length} bytes at {piece.position} are" if isinstance(piece, Slice) else "what a scan finds is"
        super().__init__(f"{what} not in the page cache")
        self.piece = piece


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ListOffsets)."""

    timestamp: int
    offset: int
    leader_epoch: int

"""What a read of a log returns."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.log.filesystem import File


class Slice:
    """Bytes of one segment that stay valid while the slice is held, also if the segment is deleted meanwhile."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def read(self) -> bytes:
        """The bytes by pread; give file.fileno(), position and length to sendfile instead where that is cheaper."""
        return self.file.pread(self.length, self.position) if self.length else b""


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ListOffsets)."""

    timestamp: int
    offset: int
    leader_epoch: int

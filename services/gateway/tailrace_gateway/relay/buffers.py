"""Receive buffers, shared by all connections of the process: an idle connection owns none.

One that has bytes which the other side does not take is lent to that side. Where many are lent, the others read little
at a time, and what of it is not taken is copied: so unread answers take 64 MiB, and 32 KiB for each connection.
"""

from __future__ import annotations

import mmap

from tailrace.wire.encode_buffer import mapped

BUFFER_BYTES = 262_144
# A request that announces more gets pages of its own: the system fills them as bytes come, and has them back at once.
_MAPPED_BYTES = 2 << 20
_KEPT = 16
MOST_LENT = 256
LITTLE_BYTES = 32_768


class Buffer:
    """One receive buffer; held by the read it serves and by a socket that still has to send from it."""

    __slots__ = ("data", "holders", "view")

    def __init__(self) -> None:
        self.data = bytearray(BUFFER_BYTES)
        self.view = memoryview(self.data)
        self.holders = 0


class BufferPool:
    """Keeps a few buffers warm: touching fresh memory costs more than the copy it saves."""

    def __init__(self) -> None:
        self.free = [Buffer()]
        self.lent = 0  # compared with MOST_LENT before each read

    def lend(self, buffer: Buffer) -> None:
        """One holder more, until it gives the buffer back."""
        buffer.holders += 1
        self.lent += 1

    def give_back(self, buffer: Buffer) -> None:
        """The bytes of a lent buffer were taken."""
        self.lent -= 1
        self.give(buffer)

    def take(self) -> Buffer:
        buffer = self.free.pop() if self.free else Buffer()
        buffer.holders = 1
        return buffer

    def give(self, buffer: Buffer) -> None:
        """One holder less; the last one returns the buffer."""
        buffer.holders -= 1
        if not buffer.holders and len(self.free) < _KEPT:
            self.free.append(buffer)


class Collected:
    """What has come of a request that is collected; `size` is what it announced."""

    __slots__ = ("_data", "filled")

    def __init__(self, size: int) -> None:
        self._data: bytearray | mmap.mmap = mapped(size) if size > _MAPPED_BYTES else bytearray()
        self.filled = 0

    def add(self, data: memoryview) -> None:
        before, self.filled = self.filled, self.filled + len(data)
        self._data[before : self.filled] = data

    def whole(self) -> bytes | memoryview:
        """All of it; a large one is not copied, which takes long."""
        return memoryview(self._data) if isinstance(self._data, mmap.mmap) else bytes(self._data)

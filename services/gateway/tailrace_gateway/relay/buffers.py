"""Receive buffers, shared by all connections of the process: an idle connection owns none."""

from __future__ import annotations

BUFFER_BYTES = 262_144
_KEPT = 16


class Buffer:
    """One receive buffer; held by the read it serves and by a socket that still has to send from it."""

    __slots__ = ("data", "holders", "view")

    def __init__(self) -> None:
        self.data = bytearray(BUFFER_BYTES)
        self.view = memoryview(self.data)
        self.holders = 0


class Pool:
    """Keeps a few buffers warm: touching fresh memory costs more than the copy it saves."""

    def __init__(self) -> None:
        self.free = [Buffer()]

    def take(self) -> Buffer:
        buffer = self.free.pop() if self.free else Buffer()
        buffer.holders = 1
        return buffer

    def give(self, buffer: Buffer) -> None:
        """One holder less; the last one returns the buffer."""
        buffer.holders -= 1
        if not buffer.holders and len(self.free) < _KEPT:
            self.free.append(buffer)

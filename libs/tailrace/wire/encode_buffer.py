"""A buffer for one large message, which is never copied in one step.

Python copies, joins and fills memory with the interpreter in its hands: 30 MB take some twenty milliseconds, and no
thread has its turn meanwhile. So the buffer grows in copies of a mebibyte, the frame's head has its place before the
body, and what is sent is a view of it. The memory of a large one is the system's own: it is filled as it is used, and
given back at once.

kafka-python's encoders write into it as into a buffer of their own (buf, pos, ensure).
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from struct import Struct
from typing import Final, Self

from tailrace.wire.header import response_header_bytes

STEP_BYTES: Final = 1 << 20  # what is copied or filled at once: well under a millisecond
_HEAD = Struct(">ii")
_FIRST_BYTES: Final = 4096
_LARGE_BYTES: Final = 64 << 20  # addresses alone, for all but the largest answers: memory comes with what is written
_HEAD_BYTES: Final = 9  # size, correlation id, and an empty tag section where the header has one


class EncodeBuffer:
    """`buf` up to `pos` is written; the body of an answer begins behind the place for its head."""

    def __init__(self) -> None:
        self.buf: bytearray | mmap.mmap = bytearray(_FIRST_BYTES)
        self.pos = _HEAD_BYTES

    def ensure(self, needed: int) -> None:
        """Has room for so many more bytes; `buf` may be another one afterwards."""
        if self.pos + needed <= len(self.buf):
            return
        size = max(2 * len(self.buf), self.pos + needed)
        bigger = bytearray(size) if size < STEP_BYTES else _with_addresses(size)
        with memoryview(self.buf) as old, memoryview(bigger) as new:
            for at in range(0, self.pos, STEP_BYTES):
                end = min(at + STEP_BYTES, self.pos)
                new[at:end] = old[at:end]
        self.buf = bigger

    def __iadd__(self, data: bytes | bytearray | memoryview) -> Self:
        """Adds some bytes of the body."""
        self.ensure(len(data))
        end = self.pos + len(data)
        self.buf[self.pos : end] = data
        self.pos = end
        return self

    @property
    def body(self) -> memoryview:
        """What was written."""
        return memoryview(self.buf)[_HEAD_BYTES : self.pos]

    def response_frame(self, key: int, version: int, correlation_id: int) -> memoryview:
        """A whole response frame: size, header, and what was written."""
        begin = _HEAD_BYTES - 4 - response_header_bytes(key, version)
        self.buf[_HEAD_BYTES - 1] = 0
        _HEAD.pack_into(self.buf, begin, self.pos - begin - 4, correlation_id)
        return memoryview(self.buf)[begin : self.pos]

    def request_frame(self) -> memoryview:
        """A whole request frame, of what was written: header and body."""
        begin = _HEAD_BYTES - 4
        self.buf[begin:_HEAD_BYTES] = (self.pos - _HEAD_BYTES).to_bytes(4, "big")
        return memoryview(self.buf)[begin : self.pos]


def received(size: int) -> memoryview:
    """Memory for a frame of so many bytes: of a large one it is filled as its bytes come."""
    return memoryview(bytearray(size) if size < STEP_BYTES else mapped(size))


def mapped(size: int) -> mmap.mmap:
    """Memory of the system's own: filled as it is used, given back at once. Raises OSError where there is none.

    Of this process alone: what could be shared with another takes three times as long to give back.
    """
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)


def _with_addresses(size: int) -> mmap.mmap:
    """So much, and more addresses where there are some: a system may count them as memory (RLIMIT_AS)."""
    if size < _LARGE_BYTES:
        with suppress(OSError):
            return mapped(_LARGE_BYTES)
    return mapped(size)

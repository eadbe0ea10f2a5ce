"""The receiving half of a connection: one buffer that grows with what comes and shrinks when nothing does."""

from __future__ import annotations

import asyncio
import mmap
from typing import Any

from tailrace.net.limits.request_memory import OWN_BYTES, RequestMemory, Share
from tailrace.wire.connection import ServerConnection
from tailrace.wire.encode_buffer import mapped

_FIRST_BUFFER_BYTES = 4096
_FULL_BUFFER_BYTES = 524_288
# A frame that announces more gets pages of its own: the system fills them as its bytes come, and has them back at once.
_MAPPED_BYTES = 2 << 20


class Receiving(asyncio.BufferedProtocol):
    """Fills its buffer; a subclass takes frames from it (`_parse`). Buffers are replaced, never resized."""

    def __init__(self, share: Share, memory: RequestMemory, max_frame_bytes: int) -> None:
        self.core = ServerConnection(max_frame_bytes)
        self._transport: Any = None
        self._share = share
        self._memory = memory
        self._buffer: bytearray | mmap.mmap = bytearray(_FIRST_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._need = 0  # bytes of the frame that has begun, where its size is known
        self._held = False  # nothing is read, because what was read has to be handled first
        self._given_away = False  # the buffer, to a request in it
        self._kept_bytes = 0  # of the request at hand, which is out of the buffer and not answered yet
        self.received_bytes = 0

    @property
    def buffer_bytes(self) -> int:
        """How much memory it keeps for what comes."""
        return len(self._buffer)

    def keep(self, body: memoryview) -> memoryview:
        """The body of the request at hand, for as long as its handler wants: the buffer takes the next bytes soon.

        A large one is not copied, which takes milliseconds: it has the buffer, and the connection gets another one.
        It counts as memory for requests until it is answered.
        """
        self._kept_bytes = len(body)
        if len(body) < _MAPPED_BYTES:
            return memoryview(bytearray(body))
        self._given_away = True
        return body

    def _parse(self) -> None:
        raise AssertionError("a subclass handles what has come")

    def _may_read(self) -> bool:
        raise AssertionError("a subclass knows why not")

    def give_way(self, why: str) -> None:
        """For MemoryHolder: others wait for the memory of a request that comes too slowly."""
        raise AssertionError("a subclass closes the connection")

    def get_buffer(self, sizehint: int) -> memoryview:
        # Never empty: a full buffer that cannot be parsed yet has stopped the reading (_make_room).
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self.received_bytes += nbytes
        full = self._filled == len(self._buffer)
        self._parse()
        if full:
            self._make_room()

    def _take(self, unread: bytes) -> None:
        """Begins with what another process has read from the socket."""
        if len(unread) >= len(self._buffer):
            self._share.take_if_free(2 * len(unread))
            self._grow(2 * len(unread))
        self._view[: len(unread)] = unread
        self._filled = len(unread)
        self._parse()

    def _shrink(self) -> None:
        """Back to the first size, when nothing is kept."""
        if not self._filled and len(self._buffer) > _FIRST_BUFFER_BYTES:
            self._buffer = bytearray(_FIRST_BUFFER_BYTES)
            self._view = memoryview(self._buffer)
            self._share.keep(self._kept_bytes)

    def memory_granted(self) -> None:
        """The frame that has begun may come."""
        asyncio.get_running_loop().call_soon(self._parse)

    def reclaim_memory(self) -> None:
        """Others need the memory of a buffer that is empty."""
        self._shrink_if_empty()

    def torn_bytes(self) -> int:
        """How much of a frame has come that is not whole; -1: of none."""
        return self._filled if self._need and self._filled else -1

    def _shrink_if_empty(self) -> None:
        if not self._filled:
            self._shrink()

    def _make_room(self) -> None:
        """After a read that filled the buffer: a larger one, or no more reading until requests were handled."""
        capacity = min(len(self._buffer) * 4, _FULL_BUFFER_BYTES)
        if len(self._buffer) < capacity and self._share.take_if_free(capacity):
            self._grow(capacity)
        elif self._transport.is_closing():
            return
        elif self._filled == len(self._buffer):
            self._held = True
            self._transport.pause_reading()
        elif not self._held:
            self._let_others()

    def _let_others(self) -> None:
        """Reads on in the loop's next turn.

        libuv reads the same socket again, up to 32 times, as long as a read fills the buffer. A buffer as large as one
        frame is filled by each of them where the sender keeps up: the other connections would wait for 32 frames.
        """
        self._transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._held and self._may_read():
            self._transport.resume_reading()

    def _grow(self, capacity: int) -> None:
        """A new buffer rather than a resized one: views into the old one may still be read."""
        bigger = bytearray(capacity) if capacity <= _MAPPED_BYTES else mapped(capacity)
        view = memoryview(bigger)
        view[: self._filled] = self._view[: self._filled]
        self._buffer, self._view = bigger, view

    def _begin_another_buffer(self, pos: int) -> None:
        """For what came behind a request that has the old one: nothing, as a rule, since that was made for it."""
        rest = self._view[pos : self._filled]
        self._given_away = False
        self._buffer = bytearray(max(_FIRST_BUFFER_BYTES, len(rest)))
        self._view = memoryview(self._buffer)
        self._view[: len(rest)] = rest
        self._filled = len(rest)
        self._share.keep(len(self._buffer) + self._kept_bytes)

    def _answered_kept(self) -> None:
        """The request at hand is answered: its bytes are not kept any more."""
        if self._kept_bytes:
            self._kept_bytes = 0
            if not self._share.waits:
                self._share.keep(len(self._buffer))

    def _compact(self, pos: int, need: int) -> None:
        if self._given_away:
            self._begin_another_buffer(pos)
            pos = 0
        rest, capacity = self._filled - pos, len(self._buffer)
        self._need = need
        if need > capacity:
            if self._share.take(need):
                more = min(_FULL_BUFFER_BYTES, need * 4)  # room for several, where there is
                capacity = more if more > need and self._share.take_if_free(more) else need
            elif not self._held:
                self._held = True
                self._transport.pause_reading()
        if capacity > len(self._buffer):
            kept = self._view[pos : self._filled]
            self._filled = 0
            self._grow(capacity)
            self._view[:rest] = kept
        elif pos and rest:
            self._view[:rest] = self._view[pos : self._filled]  # as memmove: they may overlap
        self._filled = rest
        if not rest and self._memory.waiting_count and len(self._buffer) > OWN_BYTES and not self._share.waits:
            self._shrink()

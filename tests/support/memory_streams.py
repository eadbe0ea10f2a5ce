"""Twins of what a connection stands between: a loop whose clock goes by itself, and a transport that a test feeds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Made = TypeVar("_Made")
_SEND_HIGH_BYTES = 65_536
_TURNS = 16


class _Impatient(selectors.DefaultSelector):
    """Sleeps by moving the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now_s += max(timeout or 0.0, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Nothing is waited for: a sleep moves the clock."""

    def __init__(self) -> None:
        self._impatient = _Impatient()
        super().__init__(self._impatient)

    def time(self) -> float:
        return self._impatient.now_s

    def run(self, work: Coroutine[Any, Any, _Made]) -> _Made:
        return self.run_until_complete(work)

    def settle(self, ms: float = 0) -> None:
        """Lets what is ready run, and what follows from it, after so long."""
        self.run(_turns(ms))


async def _turns(ms: float) -> None:
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()
    loop.call_later(ms / 1000, passed.set_result, None)
    await passed
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def cancel_all() -> None:
    """Cancels what runs in the loop, but the one that asks for it."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


class MemoryTransport(asyncio.Transport):
    """The kernel's and the client's side of one connection: bytes lie unread until the protocol reads."""

    def __init__(self, protocol: Any, chunk_bytes: int = 1 << 20) -> None:
        super().__init__()
        self.protocol = protocol
        self.chunk_bytes = chunk_bytes
        self.unread = bytearray()
        self.sent = bytearray()
        self.reading = True
        self.takes = True  # whether the client takes what is sent
        self.end_comes = False
        self.closed = False
        self.lost = False
        self._unsent = bytearray()
        self._high = _SEND_HIGH_BYTES
        self._paused = False

    def open(self) -> None:
        self.protocol.connection_made(self)

    # -- what a test does -----------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self.unread += data
        self.deliver()

    def end(self) -> None:
        """The client sends no more."""
        self.end_comes = True
        self.deliver()

    def deliver(self) -> None:
        while self.unread and self.reading and not self.closed:
            into = self.protocol.get_buffer(-1)
            count = min(len(into), len(self.unread), self.chunk_bytes)
            assert count, "an empty buffer is the end of a connection"
            into[:count] = self.unread[:count]
            del self.unread[:count]
            self.protocol.buffer_updated(count)
        if self.end_comes and self.reading and not self.closed:
            self.end_comes = False
            if not self.protocol.eof_received():
                self.close()

    def take(self, *, takes: bool) -> None:
        self.takes = takes
        if takes and self._unsent:
            self.sent += self._unsent
            self._unsent.clear()
            if self._paused:
                self._paused = False
                self.protocol.resume_writing()
        if self.closed:
            self._lose()

    # -- what the protocol does -----------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: Any) -> None:
        if self.takes and not self._unsent:
            self.sent += data
            return
        self._unsent += data
        self._look()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(bytes(piece) for piece in pieces))

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _SEND_HIGH_BYTES if high is None else high
        self._look()

    def _look(self) -> None:
        if len(self._unsent) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        if not self._unsent:
            self._lose()

    def abort(self) -> None:
        self.closed = True
        self._lose()

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

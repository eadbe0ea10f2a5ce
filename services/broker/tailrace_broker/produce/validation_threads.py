"""Batches that a topic wants looked through, decompressed or compressed again, in threads where that may take long.

A few kilobytes can stand for millions of records, and every one of them is looked at: seconds in which the event loop
would serve nobody. One request is under way for a connection, which waits for it, so no more wait for a thread than
there are connections; who leaves stops its own, unless it asked for no answer and few such are left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.limits import Examined, Limits

# Each may have MAX_DECOMPRESSED_BYTES in memory, and takes the interpreter from the event loop half of the time.
_THREADS: Final = 2
MOST_HELD_BYTES: Final = 64 * 1024 * 1024  # of what was examined and is not appended yet: each batch may have grown
_MOST_LEFT_BEHIND: Final = 64 * 1024 * 1024


class _Stopped(Exception):
    """Nobody waits for it any more."""


class ClientBatch(NamedTuple):
    """A client's batch, and what its topic asks of it."""

    limits: Limits
    records: bytes


class Examination:
    """Of one request's batches: run() in a thread, then `verdicts` has what append takes of each, or why not.

    There are fewer verdicts than batches where those are all that may be held at once: another one is for the rest.
    """

    def __init__(self, batches: list[ClientBatch], now_ms: int) -> None:
        self.verdicts: list[Examined | ApiError] = []
        self.is_stopped = False
        self._batches = batches
        self._now_ms = now_ms

    @property
    def size_bytes(self) -> int:
        """Of what it was given."""
        return sum(len(batch.records) for batch in self._batches)

    def run(self) -> None:
        held_bytes = 0
        for batch in self._batches:
            self._on_step()
            if held_bytes >= MOST_HELD_BYTES:
                return
            try:
                examined = batch.limits.examine(batch.records, self._now_ms, self._on_step)
                self.verdicts.append(examined)
                held_bytes += len(examined)
            except ApiError as refused:
                refused.__context__ = refused.__cause__ = None
                self.verdicts.append(refused.with_traceback(None))  # its frames hold what was decompressed

    def stop(self) -> None:
        """Has run() end soon, with an exception."""
        self.is_stopped = True

    def _on_step(self) -> None:
        if self.is_stopped:
            raise _Stopped


class Examiner:
    """The threads of one broker."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "examiner")
        self._running: dict[asyncio.Future[None], Examination] = {}

    def __len__(self) -> int:
        return len(self._running)

    @property
    def goes_on(self) -> bool:
        """Whether what nobody waits for any more is done all the same, as nobody waits for acks=0 anyway."""
        return sum(examination.size_bytes for examination in self._running.values()) <= _MOST_LEFT_BEHIND

    def begin(self, examination: Examination, done: Callable[[BaseException | None], None]) -> None:
        """Calls done once it has run, with what that ended with; not if it was cancelled."""
        ended = asyncio.get_running_loop().run_in_executor(self._threads, examination.run)
        self._running[ended] = examination
        ended.add_done_callback(partial(self._ended, done))

    def _ended(self, done: Callable[[BaseException | None], None], ended: asyncio.Future[None]) -> None:
        del self._running[ended]
        if not ended.cancelled():
            done(ended.exception())

    def close(self) -> None:
        """Stops what runs, and waits for that."""
        for examination in self._running.values():
            examination.stop()
        self._threads.shutdown(cancel_futures=True)

"""Batches that a topic wants looked through, decompressed or compressed anew, in threads where that may take long.

A few kilobytes can stand for millions of records, and every one of them is looked at: seconds in which the event loop
would serve nobody. One request is under way for a connection, which waits for it, so no more wait for a thread than
there are connections; who leaves stops its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.limits import Examined, Limits
from tailrace_broker.switching import Switching

# Each may have MAX_DECOMPRESSED_BYTES in memory, and takes the interpreter from the event loop half of the time.
_THREADS: Final = 2


class _Stopped(Exception):
    """Nobody waits for it any more."""


class Batch(NamedTuple):
    """A client's batch, and what its topic asks of it."""

    limits: Limits
    records: bytes


class Examination:
    """Of one request's batches: run() in a thread, then `verdicts` has what append takes of each, or why not."""

    def __init__(self, batches: list[Batch], now_ms: int) -> None:
        self.verdicts: list[Examined | ApiError] = []
        self._batches = batches
        self._now_ms = now_ms
        self._stopped = False

    def run(self) -> None:
        for batch in self._batches:
            self._on_step()
            try:
                self.verdicts.append(batch.limits.examine(batch.records, self._now_ms, self._on_step))
            except ApiError as refused:
                refused.__context__ = refused.__cause__ = None
                self.verdicts.append(refused.with_traceback(None))  # its frames hold what was decompressed

    def stop(self) -> None:
        """Has run() end soon, with an exception."""
        self._stopped = True

    def _on_step(self) -> None:
        if self._stopped:
            raise _Stopped


class Examiner:
    """The threads of one broker."""

    def __init__(self, switching: Switching) -> None:
        self._switching = switching
        self._threads = ThreadPoolExecutor(_THREADS, "examiner")
        self._running: dict[asyncio.Future[None], Examination] = {}

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, examination: Examination, done: Callable[[BaseException | None], None]) -> None:
        """Calls done once it has run, with what that ended with; not if it was cancelled."""
        self._switching.hold()
        ended = asyncio.get_running_loop().run_in_executor(self._threads, examination.run)
        self._running[ended] = examination
        ended.add_done_callback(partial(self._ended, done))

    def _ended(self, done: Callable[[BaseException | None], None], ended: asyncio.Future[None]) -> None:
        del self._running[ended]
        self._switching.release()
        if not ended.cancelled():
            done(ended.exception())

    def close(self) -> None:
        """Stops what runs, and waits for that."""
        for examination in self._running.values():
            examination.stop()
        self._threads.shutdown(cancel_futures=True)

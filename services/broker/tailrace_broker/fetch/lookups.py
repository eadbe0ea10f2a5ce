"""Searches of a log, and walks through damaged segments, in threads: each may wait for the disk, many times over.

They run on views of the segments (tailrace.log.segment.background_scan), so that the log goes on meanwhile; what they
found counts if the files were not cut, replaced or deleted under them. One is under way for a connection, which waits
for it, so no more wait for a thread than there are connections; a connection that ends stops its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeAlias, TypeVar

from tailrace.log.background_lookup import Found, SegmentSearch
from tailrace.log.segment import background_scan
from tailrace.log.segment.view import BackgroundScan

_THREADS: Final = 4
_Found = TypeVar("_Found")
_Done: TypeAlias = Callable[[OSError | None], None]


class LogChanged(Exception):
    """The files were changed under a lookup: it must be done again, on what is there now."""


class Lookups:
    """The threads of one broker. They are not nice: who holds the interpreter must not wait for a processor."""

    def __init__(self) -> None:
        self.count = 0
        self._threads = ThreadPoolExecutor(_THREADS, "lookup")
        self._running: dict[object, Callable[[], None]] = {}  # and how to stop it
        self._walks: dict[BackgroundScan, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def find(self, search: SegmentSearch[Found]) -> Found:
        """What the search finds. Raises LogChanged, ApiError, OSError."""
        ended: asyncio.Future[Found] = self._begin(search.run, search.stop)
        try:
            await asyncio.wait([ended])
        finally:
            if not ended.done():  # the client has left
                search.stop()
                ended.cancel()
        error = ended.exception()
        if search.stale:
            raise LogChanged
        if not isinstance(error, OSError):
            search.take_up()
        return ended.result()

    def walk(self, walk: BackgroundScan, done: _Done) -> None:
        """Calls done once the walk is over, or with what it ended with; who wants the same walk waits for one."""
        running = self._walks.get(walk)
        if running is None:
            running = self._walks[walk] = self._begin(partial(background_scan.run, walk), walk.mode.stop)
            running.add_done_callback(lambda _: self._walks.pop(walk))
        running.add_done_callback(partial(_resolve, done))

    def _begin(self, run: Callable[[], _Found], stop: Callable[[], None]) -> asyncio.Future[_Found]:
        self.count += 1
        ended = asyncio.get_running_loop().run_in_executor(self._threads, run)
        self._running[ended] = stop
        ended.add_done_callback(self._ended)
        return ended

    def _ended(self, ended: object) -> None:
        del self._running[ended]

    def close(self) -> None:
        """Stops what runs, and waits for that."""
        for stop in self._running.values():
            stop()
        self._threads.shutdown(cancel_futures=True)


def _resolve(done: _Done, ended: asyncio.Future[None]) -> None:
    if not ended.cancelled():
        error = ended.exception()
        done(error if error is None or isinstance(error, OSError) else OSError(str(error)))

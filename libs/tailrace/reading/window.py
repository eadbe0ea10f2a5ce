"""A bounded piece of what a reader finds: so many records and bytes, after looking at so many, in so much time.

Reading goes on where it stopped: the cursors stand behind the last record that was looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from tailrace.clock import Clock
from tailrace.reading.cursor import Cursor
from tailrace.reading.reader import TopicReader
from tailrace.records.record import Record

_POLL_MS: Final = 1_000
_TAKE_MS: Final = 250  # then others that need the thread have their turn
_RECORD_BYTES: Final = 16  # of a record without key, value and headers
T = TypeVar("T")
Matches = Callable[[int, Record], bool]


class Run(Protocol):
    """What decodes and filters: a thread, where an event loop has other work."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class FoundRecord(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record


class Bounds(NamedTuple):
    """What one reading may find, and look at, at most; the first record is found whatever its size."""

    records: int
    size_bytes: int
    scanned_records: int
    scanned_bytes: int
    time_ms: float


class WindowReader:
    """The records of a topic that match, window by window."""

    def __init__(
        self, reader: TopicReader, cursors: Sequence[Cursor], clock: Clock, run: Run, matches: Matches | None = None
    ) -> None:
        self._reader = reader
        self._cursors = cursors
        self._clock = clock
        self._run = run
        self._matches = matches
        self.scanned_records = 0
        self.scanned_bytes = 0
        reader.assign(cursors)

    @property
    def positions(self) -> dict[int, int]:
        """By partition the next offset to look at."""
        return {cursor.partition: cursor.offset for cursor in self._cursors}

    async def read(self, bounds: Bounds, wait_ms: float = 0) -> list[FoundRecord]:
        """What is there up to the cursors' ends; if that is nothing, or they have none, what comes first in wait_ms.

        Raises what the reader raises, and the error of a damaged batch where nothing was found before it.
        """
        began_ms = self._clock.monotonic_ms()
        window = _Window(bounds, self._matches, self._clock, began_ms + bounds.time_ms)
        waits = any(cursor.end is None for cursor in self._cursors)
        while not window.is_full:
            spent_ms = self._clock.monotonic_ms() - began_ms
            if spent_ms >= bounds.time_ms:
                break
            if (waits or self._reader.done) and (window.found or spent_ms >= wait_ms):
                break
            if not waits and self._reader.done:
                waits = True
                for cursor in self._cursors:
                    cursor.end = None
            max_wait_ms = round(max(1, min(_POLL_MS, wait_ms - spent_ms))) if waits else 0
            try:
                await self._take(window, await self._reader.poll(max_wait_ms))
            except Exception:
                if not window.found:
                    raise
                break  # the next window begins with it
        self.scanned_records += window.scanned_records
        self.scanned_bytes += window.scanned_bytes
        return window.found

    async def _take(self, window: _Window, polled: Iterator[tuple[int, Record]]) -> None:
        try:
            await self._run(partial(window.take, polled))
        except asyncio.CancelledError:
            window.is_given_up = True
            raise

    async def close(self) -> None:
        """Gives up what is on its way."""
        await self._reader.close()


class _Window:
    def __init__(self, bounds: Bounds, matches: Matches | None, clock: Clock, end_ms: float) -> None:
        self._bounds = bounds
        self._matches = matches
        self._clock = clock
        self._end_ms = end_ms
        self.is_given_up = False  # a thread is not told otherwise
        self.found: list[FoundRecord] = []
        self.found_bytes = 0
        self.scanned_records = 0
        self.scanned_bytes = 0

    @property
    def is_full(self) -> bool:
        bounds = self._bounds
        return (
            len(self.found) >= bounds.records
            or self.found_bytes >= bounds.size_bytes
            or self.scanned_records >= bounds.scanned_records
            or self.scanned_bytes >= bounds.scanned_bytes
        )

    def take(self, polled: Iterator[tuple[int, Record]]) -> None:
        """Takes records for some time. What is left is fetched again: nothing decoded is kept while others work."""
        until_ms = min(self._end_ms, self._clock.monotonic_ms() + _TAKE_MS)
        for partition, record in polled:
            if self.is_given_up:
                return
            size = size_of(record)
            self.scanned_records += 1
            self.scanned_bytes += size
            if self._matches is None or self._matches(partition, record):
                self.found.append(FoundRecord(partition, record))
                self.found_bytes += size
            if self.is_full or self._clock.monotonic_ms() >= until_ms:
                return


def size_of(record: Record) -> int:
    """The bytes of a record's key, value and headers, and some for the rest."""
    parts = len(record.key or b"") + len(record.value or b"")
    return _RECORD_BYTES + parts + sum(len(name) + len(value or b"") for name, value in record.headers)

"""Python's garbage collections: held back while a large message lives, and short besides.

A collection walks every object it has not walked yet, with the interpreter in its hands: for the rows of one large
request that is longer than others can be kept waiting. Rows are freed without it, as soon as nobody has them any more.

What else a process makes may need a collection, so nothing holds them back forever: neither a request that waits for
minutes (while_in_use), nor one after the other. What counts is processor time: what does nothing makes no garbage, and
on a machine with much else to do a request takes longer and makes no more.

Where very large messages come one after the other, the next one waits for the end of those that are there, and the
collection takes place between them (pause): it has no rows to walk then.

What a collection has found to be in use mostly stays: partitions, and the image of the cluster. A full collection would
walk all of it again whenever one request has made much more, 15 ms for 100,000 objects. So it is frozen (gc.freeze):
full collections walk what is new, and rarely, with twice as much as before, all that there is. What a process made
while collections were held back is frozen unseen if it is much: a broker opens thousands of logs for one request.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Final

from tailrace.processor_time import process_time_s

MOST_SECONDS: Final = 60.0  # by many, one after the other; then one collection takes place
SOON_SECONDS: Final = 20.0  # by then the next very large message waits for the moment in which it does not hurt
VERY_LARGE_BYTES: Final = 256 * 1024  # some ten thousand rows, which a collection walks in some milliseconds
_LONGEST_WAIT_SECONDS: Final = 20.0  # for that moment: one of those that are there may wait for minutes
MOST_OF_ONE_SECONDS: Final = 10.0  # a member of a group waits longer for the others, and its request with it
_BYTES_A_SECOND: Final = 250_000  # of half a million rows
_LEAST_SECONDS: Final = 1.0  # between two looks at what a request has used
# A full collection comes after 2 of 11 of 700 objects each, 15,000 that stay: some 3 ms. With Python's own 85,000.
_THRESHOLDS: Final = (700, 10, 1)
_MANY_OBJECTS: Final = 10_000  # 2 ms to walk, when they are new
_FULL: Final = 2  # the generation of such a collection
_GROWN: Final = 2.0  # as many blocks in use as when all were walked last; as the heap of Go's collector may grow


class Collections:
    """One for the whole process: held while anybody holds it, but let go for once when that has become too long."""

    def __init__(
        self, used_seconds: Callable[[], float] = process_time_s, on_released: Callable[[], None] = lambda: None
    ) -> None:
        """used_seconds: the processor time of the process; on_released: right before collections begin again."""
        self._used_seconds = used_seconds
        self._on_released = on_released
        self._held = 0
        self._since = 0.0
        self._usual = False
        self._very_large = 0  # in use
        self._waiting: list[asyncio.Future[None]] = []  # for the end of all of these
        self._lock = RLock()  # a collection may end a request that was forgotten, whose end releases here

    def hold(self) -> None:
        """Until release is called as often."""
        with self._lock:
            self._held += 1
            if self._held == 1:
                self._usual, self._since = gc.isenabled(), self._used_seconds()
                gc.disable()
                return
        self._collect_if_due()

    @property
    def soon(self) -> bool:
        """Whether one is to take place before the next very large message."""
        return self._held > 0 and self._usual and self._used_seconds() - self._since > SOON_SECONDS

    async def pause(self) -> None:
        """Returns when no very large message is in use, or after some seconds."""
        if not self._very_large:
            return
        ended = asyncio.get_running_loop().create_future()
        self._waiting.append(ended)
        with suppress(TimeoutError):
            await asyncio.wait_for(ended, _LONGEST_WAIT_SECONDS)

    def collect_soon(self) -> None:
        """That one: only the first of all who have waited for it has it take place."""
        self._collect_if_due(SOON_SECONDS)

    def _collect_if_due(self, most_seconds: float = MOST_SECONDS) -> None:
        """One collection where they were held for too long; others hold and release meanwhile."""
        now_seconds = self._used_seconds()
        with self._lock:
            if not self._usual or now_seconds - self._since <= most_seconds:
                return
            self._since = now_seconds
        gc.collect()

    def release(self) -> None:
        """Once for each hold."""
        with self._lock:
            self._held -= 1
            if not self._held and self._usual:
                self._on_released()
                gc.enable()

    @contextmanager
    def while_in_use(self, size_bytes: int) -> Iterator[None]:
        """Held while the block runs, MOST_OF_ONE_SECONDS at most and longer for a very large message; on a loop."""
        loop = asyncio.get_running_loop()
        until = self._used_seconds() + MOST_OF_ONE_SECONDS + size_bytes / _BYTES_A_SECOND
        timer: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal timer
            left = until - self._used_seconds()
            if left > 0:
                self._collect_if_due()
                timer = loop.call_later(min(max(left, _LEAST_SECONDS), MOST_OF_ONE_SECONDS), look)
            else:
                timer = None
                self._ended(very_large)
                self.release()

        very_large = size_bytes >= VERY_LARGE_BYTES
        self._very_large += very_large
        self.hold()
        look()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
                self._ended(very_large)
                self.release()

    def _ended(self, very_large: bool) -> None:
        self._very_large -= very_large
        if self._very_large:
            return
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(None)


class Survivors:
    """What full collections have found to be in use: it is left out of those that follow.

    Some of it becomes garbage nevertheless. So one collection walks all once there is twice as much of it, but no
    more often than every MOST_SECONDS of processor time: its length is not for one request to choose.
    """

    def __init__(self, used_seconds: Callable[[], float] = process_time_s) -> None:
        """used_seconds: the processor time of the process."""
        self._used_seconds = used_seconds
        self._since = 0.0
        self._known = 0  # blocks of memory: an object takes one or a few
        self._walks_all = False
        self._begun = False

    def begin(self) -> None:
        """From now on, for the whole process."""
        self._begun = True
        gc.set_threshold(*_THRESHOLDS)
        gc.freeze()
        gc.callbacks.append(self.on_collection)
        gc.collect()  # of nothing: Python waits with the next one until a quarter more survives than did in the last

    def keep_all(self) -> None:
        """All that there is now is in use."""
        gc.freeze()
        self._note()

    def keep_many(self) -> None:
        """As keep_all, where the next collection would have very much to walk: all that was made while none was."""
        if not self._begun or self._walks_all or gc.get_count()[0] < _MANY_OBJECTS:
            return
        gc.freeze()
        self._walk_all_if_grown()

    def end(self) -> None:
        """Collections are as long as Python's own again."""
        self._begun = False
        gc.callbacks.remove(self.on_collection)

    def on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """What Python says of each collection, in the thread that has it."""
        if phase != "stop" or info["generation"] != _FULL:
            return
        gc.freeze()
        if self._walks_all:
            self._walks_all = False
            self._note()
        else:
            self._walk_all_if_grown()

    def _walk_all_if_grown(self) -> None:
        """Has the next full collection walk all."""
        if self._used_seconds() - self._since > MOST_SECONDS and sys.getallocatedblocks() > _GROWN * self._known:
            self._walks_all = True
            gc.unfreeze()

    def _note(self) -> None:
        # Not gc.get_freeze_count(), which counts by going from object to object: 30 ms for 300,000.
        self._since, self._known = self._used_seconds(), sys.getallocatedblocks()


SURVIVORS: Final = Survivors()
COLLECTIONS: Final = Collections(on_released=SURVIVORS.keep_many)

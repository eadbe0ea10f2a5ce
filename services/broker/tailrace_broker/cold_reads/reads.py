"""Reads that would wait for the disk: a process brings them into memory while the event loop goes on.

One job is under way for a connection, which waits for it, so the queue is no longer than there are connections. Jobs
take turns of a mebibyte, so that who asked for much does not keep the disk from the others. Who gets what how:
readers.py.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from tailrace.log.read import Needs, NeedsPages, Slice
from tailrace.log.segment.view import BackgroundScan
from tailrace_broker.cold_reads.messages import MOST_AT_ONCE
from tailrace_broker.cold_reads.pool import PooledSlice
from tailrace_broker.cold_reads.readers import cold_reader
from tailrace_broker.cold_reads.worker import ColdWorker, InThreads

_TURN_BYTES: Final = 1_048_576
# How often one fetch waits for the disk: each time the page cache may have lost what the last one brought.
MOST_TRIES: Final = 4
# How much it is given then, which the event loop waits for: one batch, or some small ones.
LAST_BYTES: Final = 65_536
_UNUSED_SECONDS: Final = 60.0  # and the pool gives its memory back,
_A_MOMENT_SECONDS: Final = 0.01  # not all at once

_Done: TypeAlias = Callable[[OSError | None], None]


def _refuse(walk: BackgroundScan, done: _Done) -> None:
    done(OSError(errno.EAGAIN, "nobody walks through segments"))


class ColdRead:
    """What one fetch wants from the disk; done is called with the error that a read ended with, or None."""

    __slots__ = ("_all", "cancelled", "done", "wanted")

    def __init__(self, wanted: Sequence[Slice], done: Callable[[OSError | None], None]) -> None:
        self.wanted = deque(wanted)
        self._all = wanted  # what was read into the pool stays there until the fetch has been looked at again
        self.done = done
        self.cancelled = False

    def report(self, error: OSError | None) -> None:
        """Says that it is over, to who still wants to know."""
        if not self.cancelled:
            self.done(error)
        self._all = ()

    def cancel(self, _: object = None) -> None:
        """Nobody wants it any more, nor the places that were kept for it."""
        self.cancelled = True
        self.wanted.clear()
        self._all = ()

    def turn(self) -> Slice:
        """What its next turn brings: no more than _TURN_BYTES, out of one file."""
        first = self.wanted.popleft()
        if first.length <= _TURN_BYTES:
            return first
        self.wanted.appendleft(Slice(first.file, first.position + _TURN_BYTES, first.length - _TURN_BYTES))
        return Slice(first.file, first.position, _TURN_BYTES)


class FairQueue:
    """Who may read next: first come, first served, a turn at a time, no more than `most` at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[ColdRead] = deque()
        self.running = 0

    def __len__(self) -> int:
        return sum(not job.cancelled for job in self._waiting)

    def add(self, job: ColdRead) -> None:
        """It comes behind all others."""
        self._waiting.append(job)

    def next(self) -> ColdRead | None:
        """Whose turn begins, None if nobody waits or all places are taken. Who went away gives up his place."""
        while self._waiting and self.running < self._most:
            job = self._waiting.popleft()
            if not job.cancelled and job.wanted:
                self.running += 1
                return job
        return None

    def ended(self, job: ColdRead) -> bool:
        """A turn is over; whether the job has all it wanted. Otherwise it waits for its next turn."""
        self.running -= 1
        if job.wanted and not job.cancelled:
            self._waiting.append(job)
            return False
        return True


class ColdReads:
    """Who reads from the disk for one broker, and what waits for it."""

    def __init__(
        self, worker: ColdWorker | None = None, walk: Callable[[BackgroundScan, _Done], None] | None = None
    ) -> None:
        """walk: scans a damaged segment in a thread."""
        self.worker = InThreads() if worker is None else worker
        self._closed = False
        self.turns = FairQueue(MOST_AT_ONCE)
        self._walk = _refuse if walk is None else walk
        self.count = 0  # fetches that had to wait for the disk
        self.bytes = 0  # what was brought for them into the page cache,
        self.pool_bytes = 0  # and into the pool
        self._timer: asyncio.TimerHandle | None = None  # until the pool is looked after

    def start(
        self, state: dict[str, object], wanted: Sequence[Needs], done: Callable[[OSError | None], None]
    ) -> ColdRead:
        """For the connection with this state.

        Calls done once all that is wanted is in memory, or something cannot be read; not if the job is cancelled.
        """
        self.count += 1
        walks = [one.scan for one in wanted if not isinstance(one, NeedsPages) and isinstance(one.scan, BackgroundScan)]
        if walks:  # the rest is asked for again when the first of them is over
            job = ColdRead((), done)
            self._walk(walks[0], job.report)
            return job
        reader = cold_reader(state, self.worker.carry, self.begin)
        pool = self.worker.pool if self.worker.reads_apart else None
        parts: list[Slice] = []
        for one in wanted:
            if isinstance(one, NeedsPages):
                # A read past the page cache keeps waiting those that append to the file.
                parts += reader.wants(one.slice, pool if one.closed else None)
        return self.begin(parts, done)

    def begin(self, wanted: Sequence[Slice], done: _Done) -> ColdRead:
        """Brings what is wanted of the disk, and no more than that, for somebody who may wait for it or not."""
        job = ColdRead(wanted, done)
        self.turns.add(job)
        self._begin()
        return job

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed and (job := self.turns.next()) is not None:
            piece = job.turn()
            loop.create_task(self._bring(piece)).add_done_callback(partial(self._ended, job))

    async def _bring(self, piece: Slice) -> None:
        if isinstance(piece, PooledSlice):
            count = await piece.fill(self.worker.read)
            self.pool_bytes += count
            self._look_after_pool(_UNUSED_SECONDS)
            if not piece.missing:
                return
        await self.worker.warm(piece)
        self.bytes += piece.length

    def _ended(self, job: ColdRead, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self._closed:
            return
        error = task.exception()
        if error is not None:
            job.wanted.clear()
        try:
            if self.turns.ended(job):
                job.report(error if error is None or isinstance(error, OSError) else OSError(str(error)))
        finally:
            self._begin()

    def _look_after_pool(self, seconds: float) -> None:
        if self._timer is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._maybe_give_back, self.pool_bytes)

    def _maybe_give_back(self, seen_bytes: int) -> None:
        """A block of the pool at a time, if nothing was read into it since."""
        self._timer = None
        pool, rests = self.worker.pool, self.pool_bytes == seen_bytes
        if pool is not None and (not rests or pool.give_back()):
            self._look_after_pool(_A_MOMENT_SECONDS if rests else _UNUSED_SECONDS)

    @property
    def held_bytes(self) -> int:
        """What the pool holds."""
        return 0 if self.worker.pool is None else self.worker.pool.held_bytes

    @property
    def process_starts(self) -> int:
        """How often a process was started; growing means that they die."""
        return self.worker.starts

    def close(self) -> None:
        """Nobody waits for it any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.worker.close()

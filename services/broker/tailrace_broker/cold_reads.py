"""Reads that would wait for the disk: a few threads bring them into the page cache while the event loop goes on.

One job is under way for a connection, which waits for it, so the queue is no longer than there are connections. Jobs
take turns of a mebibyte, so that who asked for much does not keep the threads from the others. Who reads cold data gets
the answers in smaller slices too: it is behind anyway, and those beside it are in a hurry.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tailrace.log.reading import Slice

_THREADS: Final = 4
_NICENESS: Final = 19
_TURN_BYTES: Final = 1_048_576
_SENDFILE_BYTES: Final = 65_536  # below it a copy is cheaper than the calls (dataplane.md)
# How often one fetch goes to the threads: each time the page cache may have lost what the last one brought.
MOST_TRIES: Final = 4
# A mebibyte is 300 us of the event loop, which costs tailing clients more than small slices cost who reads on.
_SLICE_BYTES: Final = 65_536
# So many answers after its last wait for the disk a client is still taken to read what the kernel has just read ahead.
_COLD_ANSWERS: Final = 64
_COLD: Final = "cold answers"


def loaded(piece: Slice, sends_files: bool, *, wait: bool = False) -> Any:
    """The records as they will be sent; None where the disk would have to be waited for and `wait` is not set."""
    if sends_files and piece.length >= _SENDFILE_BYTES:
        if wait:
            piece.settle()
        return piece if wait or piece.cached() else None
    return piece.read() if wait else piece.read_cached()


def reads_cold(state: dict[str, Any]) -> None:
    """A connection, known by its state, had to wait for the disk."""
    state[_COLD] = _COLD_ANSWERS


def paced(state: dict[str, Any], records: Any) -> Any:
    """The records of an answer; to be sent in slices if the connection reads cold data."""
    left = state.get(_COLD, 0)
    if left and type(records) is Slice:
        state[_COLD] = left - 1
        records.turn_bytes = _SLICE_BYTES
    return records


class Job:
    """What one fetch wants from the disk; done is called with the error that a read ended with, or None."""

    __slots__ = ("cancelled", "done", "wanted")

    def __init__(self, wanted: Sequence[Slice], done: Callable[[OSError | None], None]) -> None:
        self.wanted = deque(wanted)
        self.done = done
        self.cancelled = False

    def turn(self) -> Slice:
        """What its next turn brings: no more than _TURN_BYTES, out of one file."""
        first = self.wanted.popleft()
        if first.length <= _TURN_BYTES:
            return first
        self.wanted.appendleft(Slice(first.file, first.position + _TURN_BYTES, first.length - _TURN_BYTES))
        return Slice(first.file, first.position, _TURN_BYTES)


class Turns:
    """Who may read next: first come, first served, a turn at a time, no more than `most` at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[Job] = deque()
        self.running = 0

    def __len__(self) -> int:
        return sum(not job.cancelled for job in self._waiting)

    def add(self, job: Job) -> None:
        """It comes behind all others."""
        self._waiting.append(job)

    def next(self) -> Job | None:
        """Whose turn begins, None if nobody waits or all places are taken. Who went away gives up his place."""
        while self._waiting and self.running < self._most:
            job = self._waiting.popleft()
            if not job.cancelled and job.wanted:
                self.running += 1
                return job
        return None

    def ended(self, job: Job) -> bool:
        """A turn is over; whether the job has all it wanted. Otherwise it waits for its next turn."""
        self.running -= 1
        if job.wanted and not job.cancelled:
            self._waiting.append(job)
            return False
        return True


def _give_way() -> None:
    """Threads that read for who is behind get the processor when nobody else wants it."""
    with suppress(OSError):  # a kernel that knows no priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


class ColdReads:
    """The threads of one broker."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "cold-read", initializer=_give_way)
        self.turns = Turns(_THREADS)
        self.count = 0  # fetches that had to wait for the disk
        self.bytes = 0  # what was brought for them

    def start(self, wanted: Sequence[Slice], done: Callable[[OSError | None], None]) -> Job:
        """Calls done once all pieces are in the page cache, or one cannot be read; not if the job is cancelled."""
        self.count += 1
        job = Job(wanted, done)
        self.turns.add(job)
        self._begin()
        return job

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        while (job := self.turns.next()) is not None:
            piece = job.turn()
            ended = loop.run_in_executor(self._threads, piece.warm)
            ended.add_done_callback(partial(self._ended, job, piece))

    def _ended(self, job: Job, piece: Slice, future: asyncio.Future[None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            job.wanted.clear()
        else:
            self.bytes += piece.length
        if self.turns.ended(job) and not job.cancelled:
            job.done(error if error is None or isinstance(error, OSError) else OSError(str(error)))
        self._begin()

    def close(self) -> None:
        """Waits for what is under way."""
        self._threads.shutdown(cancel_futures=True)

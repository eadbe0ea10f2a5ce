"""Cleaner processes as the broker sees them: started at the first job, one job at a time, started again if they die."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from tailrace.log.compaction.job import decode_outcome, encode_job
from tailrace.log.compaction.rewrite import Outcome, RewriteJob

COMMAND: Final = (sys.executable, "-m", "tailrace_broker.compaction.cleaner_process")
_LAST_BREATH_SECONDS: Final = 5.0
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class WorkerDied(Exception):
    """The process ended in the middle of a job: it was killed, or the machine has no memory for it.

    had_begun: not where none could be started, which is no fault of the job.
    """

    def __init__(self, message: str, *, had_begun: bool = True) -> None:
        super().__init__(message)
        self.had_begun = had_begun


class Worker(Protocol):
    """Who does a pass."""

    @property
    def starts(self) -> int:
        """How often a process was started."""
        ...

    async def run(self, job: RewriteJob) -> Outcome:
        """The job's outcome; CleaningFailed or WorkerDied."""
        ...

    async def close(self) -> None: ...


class ProcessWorker:
    """One process at the lowest priority; it costs nothing before its first job. pace is a file for all of them."""

    def __init__(self, pace: int) -> None:
        self._pace = pace
        self._process: Process | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the process while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self, job: RewriteJob) -> Outcome:
        """As Worker.run. Cancelled, it takes the process with it: nobody would read the answer."""
        process = self._process
        if process is not None and process.stdin is not None and process.stdin.is_closing():
            await self.close()  # it was killed since the last pass, and its status has not come yet
            process = None
        if process is None or process.returncode is not None:
            process = await self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(encode_job(job))
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (ConnectionError, ValueError, RuntimeError) as broken:  # the last is uvloop's, of a pipe that is closed
            await self.close()
            raise WorkerDied(str(broken)) from broken
        except asyncio.CancelledError:
            await self.close()
            raise
        if not line.endswith(b"\n"):
            # It closed its end, so it is ending: a signal now could take its status away from who waits for it.
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _LAST_BREATH_SECONDS)
            await self.close()
            raise WorkerDied(f"the cleaner process ended with status {process.returncode}")
        return decode_outcome(line)

    async def _start(self) -> Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND,
                str(self._pace),
                stdin=PIPE,
                stdout=PIPE,
                limit=_MAX_LINE_BYTES,
                pass_fds=(self._pace,),
            )
        except OSError as refused:
            raise WorkerDied(f"no cleaner process could be started: {refused}", had_begun=False) from refused
        self.starts += 1
        return self._process

    async def close(self) -> None:
        """Ends the process at once: what it was writing is swept away by the next pass."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextmanager
def open_pace() -> Iterator[int]:
    """The file by which all cleaners of a broker keep one pace: eight bytes of memory."""
    file = os.memfd_create("cleaner-pace")
    try:
        yield file
    finally:
        os.close(file)


class Workers:
    """As many as log.cleaner.threads says; `open_worker` makes one."""

    def __init__(self, open_worker: Callable[[], Worker]) -> None:
        self._open_worker = open_worker
        self._workers: list[Worker] = []
        self._earlier_starts = 0  # of those that were closed

    @property
    def starts(self) -> int:
        """How often a process was started."""
        return self._earlier_starts + sum(worker.starts for worker in self._workers)

    async def take(self, count: int) -> list[Worker]:
        """So many; those that are more than that are closed."""
        while len(self._workers) > count:
            worker = self._workers.pop()
            self._earlier_starts += worker.starts
            await worker.close()
        while len(self._workers) < count:
            self._workers.append(self._open_worker())
        return list(self._workers)

    async def close(self) -> None:
        """Ends them all at once."""
        await self.take(0)

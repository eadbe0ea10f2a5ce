"""The cleaner process as the broker sees it: started at the first job, one job at a time, started again if it dies."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Final, Protocol

from tailrace.log.cleaner_job import decode_outcome, encode_job
from tailrace.log.compaction import Job, Outcome

COMMAND: Final = (sys.executable, "-m", "tailrace_broker.cleaner_process")
_LAST_BREATH_SECONDS: Final = 5.0
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class WorkerDied(Exception):
    """The process ended in the middle of a job: it was killed, or the machine has no memory for it."""


class Worker(Protocol):
    """Who does a pass."""

    async def run(self, job: Job) -> Outcome:
        """The job's outcome; CleaningFailed or WorkerDied."""
        ...

    async def close(self) -> None: ...


class ProcessWorker:
    """One process at the lowest priority; it costs nothing before its first job."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the process while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self, job: Job) -> Outcome:
        """As Worker.run. Cancelled, it takes the process with it: nobody would read the answer."""
        process = self._process
        if process is None or process.returncode is not None:
            process = await self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(encode_job(job))
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (ConnectionError, ValueError) as broken:
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
            # A session of its own: what a terminal signals is for the broker.
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=PIPE, stdout=PIPE, limit=_MAX_LINE_BYTES, start_new_session=True
            )
        except OSError as refused:
            raise WorkerDied(f"no cleaner process could be started: {refused}") from refused
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

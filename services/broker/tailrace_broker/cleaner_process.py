"""The cleaner: `python -m tailrace_broker.cleaner_process`, started by a broker at its first dirty log.

Reads jobs from stdin, one a line, and answers each with its outcome on stdout. It only ever writes .cleaned files; the
broker swaps them in. It ends with the broker, however that ends: by the end of stdin, and by a signal from the kernel.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from tailrace.errors import ApiError
from tailrace.log.cleaner_job import DAMAGED, GONE, STORAGE, decode_job, encode_failure, encode_outcome
from tailrace.log.compaction import Job, Pass
from tailrace.log.filesystem import Filesystem, RealFilesystem
from tailrace.log.open_files import OpenFiles
from tailrace.runtime.clock import SystemClock

_NICE: Final = 19
_OPEN_FILES: Final = 256
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
_IOPRIO_IDLE: Final = 3 << 13
_PR_SET_PDEATHSIG: Final = 1


def yield_to_others() -> None:
    """Lowest priority for the processor and, where there is one, for the disk; dies with its parent."""
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if number := _IOPRIO_SET.get(platform.machine()):
            libc.syscall(number, 1, 0, _IOPRIO_IDLE)


class Pace:
    """log.cleaner.io.max.bytes.per.second: how long to rest after so many bytes. Pure."""

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self._rate = bytes_per_second
        self._free_at = now

    def rest_seconds(self, done_bytes: int, now: float) -> float:
        """The seconds to rest now; what was not used before is not saved up."""
        if self._rate <= 0:
            return 0.0
        self._free_at = max(self._free_at, now - 1.0) + done_bytes / self._rate
        return max(0.0, self._free_at - now)


def clean(filesystem: Filesystem, job: Job, rest: Callable[[int], None]) -> bytes:
    """The answer to one job; rest is called with the bytes of every step."""
    try:
        work = Pass.open(filesystem, job)
        for done_bytes in work.steps():
            rest(done_bytes)
        return encode_outcome(work.outcome())
    except ApiError as damaged:
        return encode_failure(DAMAGED, damaged.message or str(damaged))
    except FileNotFoundError as gone:
        return encode_failure(GONE, str(gone))
    except OSError as failed:
        return encode_failure(STORAGE, str(failed), failed.errno or 0)


def serve(requests: BinaryIO, answers: BinaryIO, orphaned: Callable[[], bool], now: Callable[[], float]) -> None:
    """Answers jobs until the broker closes the pipe; now is a monotonic clock in seconds."""
    filesystem = RealFilesystem(OpenFiles(_OPEN_FILES))
    for line in _lines(requests):
        job = decode_job(line)
        pace = Pace(job.limits.bytes_per_second, now())

        def rest(done_bytes: int, pace: Pace = pace) -> None:
            seconds = pace.rest_seconds(done_bytes, now())
            # The broker sends nothing while it waits: what wakes this up is its end.
            if select.select([requests], [], [], seconds)[0] or orphaned():
                raise SystemExit(0)

        answers.write(clean(filesystem, job, rest))
        answers.flush()


def _lines(requests: BinaryIO) -> Iterator[bytes]:
    while line := requests.readline():
        yield line


def main() -> None:
    """The whole life of the process."""
    parent, clock = os.getppid(), SystemClock()
    yield_to_others()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which closes the pipe
    with suppress(BrokenPipeError):
        serve(
            sys.stdin.buffer,
            sys.stdout.buffer,
            lambda: os.getppid() != parent,
            lambda: clock.monotonic_ms() / 1000,
        )


if __name__ == "__main__":
    main()

"""A cleaner: `python -m tailrace_broker.compaction.cleaner_process FD`, started by a broker at its first dirty log.

Reads jobs from stdin, one a line, and answers each with its outcome on stdout; FD is an inherited file by which the
broker's cleaners keep one pace. It only ever writes .cleaned files; the
broker swaps them in. It ends with the broker, however that ends: by the end of stdin, and by a signal from the kernel.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import BinaryIO, Final

from tailrace.errors import ApiError
from tailrace.log.compaction.job import DAMAGED, GONE, STORAGE, decode_job, encode_failure, encode_outcome
from tailrace.log.compaction.rewrite import Pass, RewriteJob, any_room
from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.runtime.clock import SystemClock

_NICE: Final = 19
_OPEN_FILES: Final = 256
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
_IOPRIO_IDLE: Final = 3 << 13
_PR_SET_PDEATHSIG: Final = 1
_FREE_AT: Final = Struct("=d")


def yield_to_others() -> None:
    """Lowest priority for the processor and, where there is one, for the disk; dies with its parent."""
    with suppress(OSError):
        # A group of its own: what a terminal signals is for the broker. No session of its own: Linux would share the
        # processor out between the sessions first (sched(7), autogroup), and priorities would count within one only.
        os.setpgid(0, 0)
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if number := _IOPRIO_SET.get(platform.machine()):
            libc.syscall(number, 1, 0, _IOPRIO_IDLE)


def next_free_at(free_at: float, done_bytes: int, bytes_per_second: float, now: float) -> float:
    """When the rate allows the next byte, if it did at free_at; of what was not used a second is saved up. Pure."""
    return max(free_at, now - 1.0) + done_bytes / bytes_per_second


class Pace:
    """log.cleaner.io.max.bytes.per.second of all cleaner processes of a broker together.

    The file holds when the next byte is allowed, as a double of the machine's monotonic clock; a lock that ends with
    the process that holds it guards it.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    def rest_seconds(self, done_bytes: int, bytes_per_second: float, now: float) -> float:
        """Notes what was read and written, and says how long to rest now; a rate of 0 is none."""
        if bytes_per_second <= 0:
            return 0.0
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            (free_at,) = _FREE_AT.unpack(os.pread(self._file, _FREE_AT.size, 0).ljust(_FREE_AT.size, b"\0"))
            free_at = next_free_at(free_at, done_bytes, bytes_per_second, now)
            os.pwrite(self._file, _FREE_AT.pack(free_at), 0)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        return max(0.0, free_at - now)


def usable_bytes_of(directory: str) -> int:
    """What is free on the disk that holds it, to those who are not root."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def clean(
    filesystem: Filesystem, job: RewriteJob, rest: Callable[[int], None], usable_bytes: Callable[[], int] = any_room
) -> bytes:
    """The answer to one job; rest is called with the bytes of every step."""
    try:
        work = Pass.open(filesystem, job, usable_bytes)
        for done_bytes in work.steps():
            rest(done_bytes)
        return encode_outcome(work.outcome())
    except ApiError as damaged:
        return encode_failure(DAMAGED, damaged.message or str(damaged))
    except FileNotFoundError as gone:
        return encode_failure(GONE, str(gone))
    except OSError as failed:
        return encode_failure(STORAGE, str(failed), failed.errno or 0)


def serve(
    requests: BinaryIO, answers: BinaryIO, pace: Pace, orphaned: Callable[[], bool], now: Callable[[], float]
) -> None:
    """Answers jobs until the broker closes the pipe; now is a monotonic clock in seconds."""
    filesystem = RealFilesystem(OpenFiles(_OPEN_FILES))
    for line in _lines(requests):
        job = decode_job(line)
        rate = job.limits.bytes_per_second

        def rest(done_bytes: int, rate: float = rate) -> None:
            seconds = pace.rest_seconds(done_bytes, rate, now())
            # The broker sends nothing while it waits: what wakes this up is its end.
            if select.select([requests], [], [], seconds)[0] or orphaned():
                raise SystemExit(0)

        answers.write(clean(filesystem, job, rest, partial(usable_bytes_of, job.directory)))
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
            Pace(int(sys.argv[1])),
            lambda: os.getppid() != parent,
            lambda: clock.monotonic_ms() / 1000,
        )


if __name__ == "__main__":
    main()

"""Whether a broker has a log directory open now: what it is writing looks wrong to who reads it from outside."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.inspect import files
from tailrace.log.filesystem import checkpoints

LOCKS: Final = Path("/proc/locks")


class InUse(NamedTuple):
    """A log directory with a broker; its process is None where it is of another container or host."""

    directory: Path
    pid: int | None

    def __str__(self) -> str:
        who = "a broker" if self.pid is None else f"process {self.pid}"
        return f"{self.directory} is in use by {who}"


def in_use(paths: Iterable[Path]) -> Iterator[InUse]:
    """Which of the log directories that these partition, log or data directories stand for have a broker."""
    for path in dict.fromkeys(found for given in paths for found in _log_directories(given)):
        lock = path / checkpoints.LOCK
        if lock.exists() and _is_locked(lock):
            yield InUse(path, _holder(lock))


def _log_directories(path: Path) -> Iterator[Path]:
    if files.partition_of(path.absolute()) and any(path.glob("*.log")):
        yield path.absolute().parent
    else:
        yield from files.log_directories(path)


def _is_locked(path: Path) -> bool:
    """By Java's fcntl(2) or our flock(2). Where the kernel's list does not show it, a shared lock is tried."""
    if _holder(path) is not None:
        return True
    try:
        with path.open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # not ours to read: what follows says so
        return False
    return False


def _holder(path: Path) -> int | None:
    """The process that has a lock on a file, by proc(5): `1: FLOCK ADVISORY WRITE 42 fe:00:7 0 EOF`."""
    try:
        stat, text = path.stat(), LOCKS.read_text()
    except OSError:
        return None
    wanted = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in text.splitlines():
        fields = line.split()
        if "->" not in fields and wanted in fields and fields[4].isdecimal() and int(fields[4]) > 0:
            return int(fields[4])
    return None

"""The clean end of many logs of one directory: their last flushes side by side, their new names made durable once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tailrace.log.filesystem.port import Filesystem
from tailrace.log.flush import Flush
from tailrace.log.log import Log

_THREADS: Final = 8  # more do not make a disk faster
_AT_ONCE: Final = 256  # each has three files open meanwhile, and ten thousand would be above the limit


def close_logs(filesystem: Filesystem, path: str, logs: Sequence[Log]) -> None:
    """Flushes and closes the logs of the directory at `path`, to which nothing is appended any more. Raises OSError."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for start in range(0, len(logs), _AT_ONCE):
            begun = [(log, flush) for log in logs[start : start + _AT_ONCE] if (flush := log.begin_close()) is not None]
            _run(filesystem, path, [flush for _, flush in begun], pool)
            for log, flush in begun:
                log.finish_close(flush)


def _run(filesystem: Filesystem, path: str, flushes: list[Flush], pool: ThreadPoolExecutor) -> None:
    """Side by side, because the file system writes one journal entry for all that wait at a time."""
    new = [flush for flush in flushes if path in flush.names]
    for flush in new:
        flush.names.remove(path)
    for _ in pool.map(Flush.run, flushes):
        pass
    if new:  # their names, once for all of them
        filesystem.sync_directory(path)

"""The clean end of many logs of one directory: their last flushes side by side, their new names made durable once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tailrace.log.filesystem.port import Filesystem
from tailrace.log.log import Log

_THREADS: Final = 16
_AT_ONCE: Final = 256


def close_logs(filesystem: Filesystem, path: str, logs: Sequence[Log]) -> None:
    """Flushes and closes the logs of the directory at `path`. Raises OSError."""
    # Side by side, because the file system writes one journal entry for all that wait at a time.
    with ThreadPoolExecutor(_THREADS) as pool:
        # Not all at once: each has three files open meanwhile, and ten thousand would be above the limit.
        for start in range(0, len(logs), _AT_ONCE):
            some = logs[start : start + _AT_ONCE]
            begun = [(log, flush) for log in some if (flush := log.begin_close()) is not None]
            new = [flush for _, flush in begun if path in flush.names]
            for flush in new:
                flush.names.remove(path)
            for _ in pool.map(lambda pair: pair[1].run(), begun):
                pass
            if new:  # their names, once for all of them
                filesystem.sync_directory(path)
            for log, flush in begun:
                log.finish_close(flush)

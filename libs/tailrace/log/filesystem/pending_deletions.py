"""Files and directories to be removed after file.delete.delay.ms, those of one log directory together.

A deleted segment was renamed to .deleted, a deleted partition's directory to -delete. A timer of the broker asks for
what is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from threading import Lock
from typing import Final

from tailrace.log.filesystem.names import DELETE_SUFFIX
from tailrace.log.filesystem.port import Filesystem, join

_MOST_AT_ONCE: Final = 500


class PendingDeletions:
    """Paths, and when each is due by a wall clock that may be set. Any thread may add to it."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[int, int]] = {}  # and the delay
        self._queue: list[tuple[int, str]] = []
        self._changing = Lock()

    def add(self, path: str, now_ms: int = 0, delay_ms: int = 0) -> None:
        """The path is due delay_ms from now; at once, by default."""
        with self._changing:
            self._due[path] = (now_ms + delay_ms, delay_ms)
            heappush(self._queue, (now_ms + delay_ms, path))

    def due(self, now_ms: int) -> list[str]:
        """Some of the paths that are due, which are forgotten here."""
        with self._changing:
            self._set_back(now_ms)
            paths: list[str] = []
            while self._queue and self._queue[0][0] <= now_ms and len(paths) < _MOST_AT_ONCE:
                due_ms, path = heappop(self._queue)
                if self._due.get(path, (-1, 0))[0] == due_ms:  # else it was added again, or has gone
                    del self._due[path]
                    paths.append(path)
            return paths

    def _set_back(self, now_ms: int) -> None:
        """Kafka's delay runs on a timer: with the clock set back by hours nothing may stay for as long."""
        if self._queue and self._queue[0][0] - now_ms > self._due.get(self._queue[0][1], (0, 0))[1]:
            self._due = {path: (min(due_ms, now_ms + delay), delay) for path, (due_ms, delay) in self._due.items()}
            self._queue = [(due_ms, path) for path, (due_ms, _) in self._due.items()]
            heapify(self._queue)

    def move_to(self, other: PendingDeletions, directory: str) -> None:
        """Another has the timer for these files, which lie in this directory now."""
        for path, (due_ms, delay_ms) in self._due.items():
            other.add(join(directory, path.rpartition("/")[2]), due_ms - delay_ms, delay_ms)
        self._due, self._queue = {}, []


def remove_paths(filesystem: Filesystem, paths: Iterable[str]) -> None:
    """Removes files and -delete directories, in a thread. Raises the first OSError when all were tried."""
    failed: list[OSError] = []
    for path in paths:
        try:
            with suppress(FileNotFoundError):  # its directory was deleted
                if path.endswith(DELETE_SUFFIX):
                    for name in filesystem.list(path):
                        filesystem.remove(join(path, name))
                filesystem.remove(path)
        except OSError as error:
            failed.append(error)
    if failed:
        raise failed[0]

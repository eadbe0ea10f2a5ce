"""Retention of the logs that one directory has open, and the removal of what is on its way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from tailrace.errors import ApiError
from tailrace.kafka.ids import TopicPartition
from tailrace.log.directory.deletion import Delayed
from tailrace.log.directory.unopened_log import DELETE_SUFFIX
from tailrace.log.filesystem.port import Filesystem, join
from tailrace.log.log import Log
from tailrace.log.retention import Look

_LOGS_A_STEP: Final = 50


class DirRetention:
    """Of the logs that are in `logs` when it is asked; doomed: the partitions' directories that were deleted."""

    def __init__(
        self,
        filesystem: Filesystem,
        logs: Mapping[TopicPartition, Log],
        high_watermarks: Mapping[TopicPartition, int],
        doomed: Delayed,
    ) -> None:
        self._filesystem = filesystem
        self._logs = logs
        self._high_watermarks = high_watermarks
        self._doomed = doomed

    def apply(self, now_ms: int) -> list[str]:
        """Applies retention to the open logs; the paths whose delay is over, to be given to remove()."""
        return [path for paths in self.steps(now_ms) for path in paths]

    def steps(self, now_ms: int, *, known_only: bool = False) -> Iterator[list[str]]:
        """As apply, a few logs at a time: logs may be opened and deleted between two steps.

        A log that cannot be retained does not keep the others from it: its OSError or ApiError comes at the end.
        known_only: what begin_look_at_age was not asked for is left to the next time.
        """
        keys, failed = list(self._logs), list[Exception]()
        for start in range(0, len(keys), _LOGS_A_STEP):
            paths = []
            for key in keys[start : start + _LOGS_A_STEP]:
                log = self._logs.get(key)
                if log is not None:
                    try:
                        log.delete_retention(now_ms, self._high_watermarks.get(key, 0), known_only=known_only)
                    except (OSError, ApiError) as error:
                        failed.append(error)
                    paths += log.removable_files(now_ms)
            yield paths
        yield self._doomed.due(now_ms)
        if failed:
            raise failed[0]

    def begin_look_at_age(self, key: TopicPartition, now_ms: int) -> Look | None:
        """As Log.begin_look_at_age, of a log that is open."""
        log = self._logs.get(key)
        return None if log is None else log.begin_look_at_age(now_ms, self._high_watermarks.get(key, 0))

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files and -delete directories; may be called in another thread."""
        for path in paths:
            if path.endswith(DELETE_SUFFIX):
                for name in self._filesystem.list(path):
                    self._filesystem.remove(join(path, name))
            with suppress(FileNotFoundError):  # a later segment of the same name was deleted over it
                self._filesystem.remove(path)

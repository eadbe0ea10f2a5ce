"""Retention of the logs that one directory has open."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.errors import ApiError
from tailrace.kafka.ids import TopicPartition
from tailrace.log.log import Log
from tailrace.log.retention import Look, begin_look_at_age, delete_retention


class DirRetention:
    """Of the logs that are in `logs` when it is asked."""

    def __init__(self, logs: Mapping[TopicPartition, Log], high_watermarks: Mapping[TopicPartition, int]) -> None:
        self._logs = logs
        self._high_watermarks = high_watermarks

    def apply(self, now_ms: int) -> None:
        """Applies retention to the open logs; the OSError or ApiError of one comes when all were tried."""
        failed = list[Exception]()
        for key in list(self._logs):
            try:
                self.apply_to(key, now_ms)
            except (OSError, ApiError) as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def apply_to(self, key: TopicPartition, now_ms: int, *, known_only: bool = False) -> None:
        """Applies retention to a log, if it is open. known_only: see delete_retention."""
        log = self._logs.get(key)
        if log is not None:
            delete_retention(log, now_ms, self._high_watermarks.get(key, 0), known_only=known_only)

    def begin_look_at_age(self, key: TopicPartition, now_ms: int) -> Look | None:
        """As tailrace.log.retention.begin_look_at_age, of a log that is open."""
        log = self._logs.get(key)
        return None if log is None else begin_look_at_age(log, now_ms, self._high_watermarks.get(key, 0))

"""A lookup by timestamp in another thread: it may touch many places of a log, and wait for the disk at each."""

from __future__ import annotations

from tailrace.log import lookup
from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.local_log import LocalLog
from tailrace.log.read import StoppableReads, TimestampOffset
from tailrace.log.segment.view import SegmentView


class Search:
    """Made, judged and taken up in the log's own thread; run() in any, and it is right if not `stale` afterwards."""

    __slots__ = (
        "_cuts",
        "_directory",
        "_end_offset",
        "_log",
        "_log_end_offset",
        "_mode",
        "_start_offset",
        "_timestamp_ms",
        "_views",
    )

    def __init__(self, log: LocalLog, timestamp_ms: int | None, end_offset: int) -> None:
        self._log = log
        self._timestamp_ms = timestamp_ms
        self._start_offset, self._end_offset = log.log_start_offset, min(end_offset, log.log_end_offset)
        self._cuts, self._directory, self._log_end_offset = log.cuts, log.directory, log.log_end_offset
        self._mode = StoppableReads()
        open_files = OpenFiles(limit=1)  # of those that are not open anyway
        self._views = [
            SegmentView(segment, open_files)
            for segment in log.segments
            if timestamp_ms is None or not segment.is_before(timestamp_ms)
        ]

    def run(self) -> TimestampOffset | None:
        """What was there when it was made. May raise anything if it is stale; else ApiError, OSError.

        ReadStopped after stop().
        """
        views, ends = [view.snapshot for view in self._views], (self._start_offset, self._end_offset)
        if self._timestamp_ms is None:
            return lookup.of_max_timestamp(views, *ends, self._log_end_offset, self._mode)
        return lookup.first_at_or_after(views, self._timestamp_ms, *ends, self._mode)

    def stop(self) -> None:
        """What it finds is not wanted any more. From any thread."""
        self._mode.stop()

    @property
    def stale(self) -> bool:
        """Whether files were cut, replaced, deleted or renamed since: then what run() found may be anything."""
        log = self._log
        if (log.cuts, log.directory) != (self._cuts, self._directory):
            return True
        here = set(map(id, log.segments))
        return any(id(view.segment) not in here for view in self._views)

    def take_up(self) -> None:
        """The log knows the indexes that were read, and the damage that was found. Not if it is stale."""
        for view in self._views:
            view.take_up()

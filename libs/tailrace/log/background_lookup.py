"""A lookup by timestamp that another thread does: it may touch many places of a log, and wait for the disk at each."""

from __future__ import annotations

from tailrace.log import lookup
from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.local_log import LocalLog
from tailrace.log.read import TimestampOffset
from tailrace.log.segment.view import SegmentView


class Search:
    """Made, judged and taken up in the log's own thread; run() in any, and it is right if not `stale` afterwards."""

    __slots__ = (
        "_cuts",
        "_directory",
        "_end_offset",
        "_log",
        "_log_end_offset",
        "_start_offset",
        "_timestamp_ms",
        "_views",
    )

    def __init__(self, log: LocalLog, timestamp_ms: int | None, end_offset: int) -> None:
        self._log = log
        self._timestamp_ms = timestamp_ms
        self._start_offset, self._end_offset = log.log_start_offset, end_offset
        self._cuts, self._directory, self._log_end_offset = log.cuts, log.directory, log.log_end_offset
        open_files = OpenFiles(limit=1)  # of those that are not open anyway
        self._views = [
            SegmentView(segment, open_files)
            for segment in log.segments
            if timestamp_ms is None or not segment.is_before(timestamp_ms)
        ]

    def run(self) -> TimestampOffset | None:
        """What was there when it was made. May raise anything if it is stale; else ApiError, OSError.

        NotCached after stop().
        """
        views = [view.snapshot for view in self._views]
        if self._timestamp_ms is None:
            return lookup.of_max_timestamp(views, self._start_offset, self._end_offset, self._log_end_offset)
        return lookup.first_at_or_after(views, self._timestamp_ms, self._start_offset, self._end_offset)

    def stop(self) -> None:
        """Nobody wants to know any more. From any thread."""
        for view in self._views:
            view.stop()

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

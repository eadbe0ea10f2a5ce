"""A search of a log in another thread: it may touch many places of it, and wait for the disk at each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from tailrace.log import lookup
from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.local_log import LocalLog
from tailrace.log.read import StoppableReads, TimestampOffset
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.view import SegmentView

Found = TypeVar("Found")


class SegmentSearch(ABC, Generic[Found]):
    """Made, judged and taken up in the log's own thread; run() in any, and it is right if not `stale` afterwards."""

    __slots__ = ("_cuts", "_directory", "_log", "_views", "mode")

    def __init__(self, log: LocalLog) -> None:
        self._log = log
        self._cuts, self._directory = log.cuts, log.directory
        self.mode = StoppableReads()
        open_files = OpenFiles(limit=1)  # of those that are not open anyway
        self._views = [SegmentView(segment, open_files) for segment in log.segments if self.wants(segment)]

    def wants(self, segment: Segment) -> bool:
        """Whether the segment is searched."""
        return True

    @property
    def segments(self) -> list[Segment]:
        """What is searched, as it was when the search was made."""
        return [view.snapshot for view in self._views]

    @abstractmethod
    def run(self) -> Found:
        """What was there when it was made. May raise anything if it is stale; else ApiError, OSError.

        ReadStopped after stop().
        """

    def stop(self) -> None:
        """What it finds is not wanted any more. From any thread."""
        self.mode.stop()

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


class Search(SegmentSearch[TimestampOffset | None]):
    """A lookup by timestamp."""

    __slots__ = ("_end_offset", "_log_end_offset", "_start_offset", "_timestamp_ms")

    def __init__(self, log: LocalLog, timestamp_ms: int | None, end_offset: int) -> None:
        self._timestamp_ms = timestamp_ms
        self._start_offset, self._end_offset = log.log_start_offset, min(end_offset, log.log_end_offset)
        self._log_end_offset = log.log_end_offset
        super().__init__(log)

    def wants(self, segment: Segment) -> bool:
        """Not what is older."""
        return self._timestamp_ms is None or not segment.is_before(self._timestamp_ms)

    def run(self) -> TimestampOffset | None:
        """The first record at the timestamp or later; without one that of the largest."""
        ends = self._start_offset, self._end_offset
        if self._timestamp_ms is None:
            return lookup.of_max_timestamp(self.segments, *ends, self._log_end_offset, self.mode)
        return lookup.first_at_or_after(self.segments, self._timestamp_ms, *ends, self.mode)

"""A segment as another thread may read it: its size, its holes and its indexes as they are now.

A walk through a whole segment, or a lookup that touches many places of it, may wait for the disk for long. So it runs
on a view while the log goes on. The log's own thread takes up what was found, unless the segment was cut meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeAlias

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.read import Missing, NeedsScan, ReadMode, StoppableReads
from tailrace.log.segment.batches import raw_headers
from tailrace.log.segment.segment import Segment

Examine: TypeAlias = Callable[[Segment, ReadMode], None]


def _note(damages: list[int], view: Segment) -> None:
    damages.append(view.base_offset)


class SegmentView:
    """A segment and its snapshot, which another thread may read. Make it, and take it up, in the log's own thread."""

    __slots__ = ("_damages", "segment", "snapshot")

    def __init__(self, segment: Segment, open_files: OpenFiles) -> None:
        self.segment = segment
        self.snapshot = segment.snapshot(open_files)
        # Not of this object, or both would stay, with the open file, until a garbage collection.
        self._damages: list[int] = []
        self.snapshot.on_damage = partial(_note, self._damages)

    def take_up(self) -> bool:
        """The segment knows what was found out, and tells of damage; it was not cut since.

        False where that is not all there is to know: a hole went to the end, and that is elsewhere now.
        """
        segment, view = self.segment, self.snapshot
        examined = view.examined and not segment.examined
        if view.indexes is None or not (examined or segment.indexes is None):
            return True
        size = view.size_bytes
        same_end = (size, view.end_offset) == (segment.size_bytes, segment.end_offset)
        if examined and view.holes and view.holes[-1].end == size and not same_end:
            return False
        segment.indexes = view.indexes
        segment.copy_marks(view)
        if examined:
            segment.examined, segment.holes = True, view.holes
        for position, header in raw_headers(segment, size):  # appended since, so in the page cache
            segment.note(header, position)
        if segment.end_offset is not None:
            segment.note_latest()
        if self._damages:
            segment.on_damage(segment)
        return True


class BackgroundScan:
    """A segment for another thread, to load its indexes or examine it (background_scan.run).

    NeedsScan has it; a read that gets it has it run, and reads again. It runs once, however many need it.
    """

    __slots__ = ("done", "examine", "failed", "mode", "view")

    def __init__(self, segment: Segment, examine: Examine | None = None) -> None:
        self.view = SegmentView(segment, OpenFiles())
        self.examine = examine  # None: its indexes alone are wanted
        self.mode = StoppableReads()
        self.done = self.failed = False

    def take_up(self) -> bool:
        """As SegmentView.take_up."""
        return self.view.take_up()


def want(segment: Segment, scan: BackgroundScan, mode: ReadMode) -> NoReturn:
    """Raises Missing: another thread must scan the segment, unless one does so already."""
    if mode.in_haste:
        raise Missing(NeedsScan(scan))  # what does the rest for it scans as well
    if segment.scan is None or segment.scan.failed:
        segment.scan = scan
    raise Missing(NeedsScan(segment.scan))


def scanned(segment: Segment) -> bool:
    """Whether another thread has just scanned it; the segment knows what that found."""
    scan = segment.scan
    if scan is None or not scan.done:
        return False
    segment.scan = None
    return scan.take_up()

"""What another thread finds out about a segment while the log goes on: on a view of its own, taken up afterwards.

A walk through a whole segment, or a lookup that touches many places of it, may wait for the disk for long. So it runs
on a view: the size, the holes and the indexes as they are now. The log's own thread takes up what was found, unless the
segment was cut meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.read import Slice

if TYPE_CHECKING:
    from tailrace.log.segment.segment import Segment


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

    def stop(self) -> None:
        """Nobody wants it any more: NotCached in its thread."""
        self.snapshot.reader.stop()

    def take_up(self) -> bool:
        """The segment knows what was found out; False where too much was appended for that to be all."""
        return self.segment.take_up(self.snapshot, damaged=bool(self._damages))


class BackgroundScan(Slice):
    """A segment for another thread, to load its indexes or examine it, in place of bytes that are not cached.

    Whoever needs it is told by NotCached, has it run, and reads again. It runs once, however many need it.
    """

    __slots__ = ("_examine", "done", "failed", "view")

    def __init__(self, segment: Segment, examine: Callable[[Segment], None] | None = None) -> None:
        super().__init__(segment.file, 0, 0)
        self.view = SegmentView(segment, OpenFiles())
        self.done = self.failed = False
        self._examine = examine

    def run(self) -> None:
        """In a thread; raises what reading raises, NotCached if it was stopped."""
        segment = self.view.snapshot
        try:
            _ = segment.offset_index  # also finds out what is wrong, if that is where it shows
            if self._examine is not None and not segment.examined:
                self._examine(segment)
            self.done = True
        finally:
            self.failed = not self.done

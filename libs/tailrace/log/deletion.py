"""Files on their way out: renamed to .deleted at once, removed after file.delete.delay.ms."""

from __future__ import annotations

from tailrace.log.recovery import DELETED_SUFFIX
from tailrace.log.segment import SUFFIXES, Segment


class Doomed:
    """The deleted files of one log and when each may be removed."""

    __slots__ = ("_paths",)

    def __init__(self) -> None:
        self._paths: list[tuple[int, str]] = []

    def add(self, segment: Segment, due_ms: int) -> None:
        """Takes the segment's names away; whoever holds a slice of it can still read it."""
        # The .log goes last, so that a crash in between leaves a segment whose indexes are rebuilt.
        for suffix in reversed(SUFFIXES):
            path = segment.path(suffix)
            try:
                segment.filesystem.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            self._paths.append((due_ms, path + DELETED_SUFFIX))

    def due(self, now_ms: int) -> list[str]:
        """The paths to remove now; they are forgotten here."""
        paths = [path for due_ms, path in self._paths if due_ms <= now_ms]
        if paths:
            self._paths = [entry for entry in self._paths if entry[0] > now_ms]
        return paths

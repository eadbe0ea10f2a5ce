"""Files on their way out: renamed to .deleted at once, removed after file.delete.delay.ms."""

from __future__ import annotations

from tailrace.log.recovery.loader import DELETED_SUFFIX
from tailrace.log.segment.segment import SUFFIXES, Segment


class Delayed:
    """Paths and when each may be removed, by a wall clock that somebody may set."""

    __slots__ = ("_paths",)

    def __init__(self) -> None:
        self._paths: list[tuple[int, int, str]] = []

    def add(self, path: str, since_ms: int, delay_ms: int) -> None:
        """It may be removed delay_ms after since_ms."""
        self._paths.append((since_ms, delay_ms, path))

    def due(self, now_ms: int) -> list[str]:
        """The paths to remove now; they are forgotten here."""
        if not self._paths:
            return []
        # Kafka's delay runs on a timer: with the clock set back by hours nothing may stay for as long.
        waits = [(min(since_ms, now_ms), delay_ms, path) for since_ms, delay_ms, path in self._paths]
        self._paths = [entry for entry in waits if now_ms - entry[0] < entry[1]]
        return [path for since_ms, delay_ms, path in waits if now_ms - since_ms >= delay_ms]


class Doomed(Delayed):
    """The deleted files of one log and when each may be removed."""

    __slots__ = ()

    def take(self, segment: Segment, since_ms: int = 0, delay_ms: int = 0) -> None:
        """Takes the segment's names away; whoever holds a slice of it can still read it."""
        # The .log goes last, so that a crash in between leaves a segment whose indexes are rebuilt.
        for suffix in reversed(SUFFIXES):
            path = segment.path(suffix)
            try:
                segment.filesystem.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            self.add(path + DELETED_SUFFIX, since_ms, delay_ms)

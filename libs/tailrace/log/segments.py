"""The segments of one log, in order: where each begins, which of them takes appends, and what belongs to all of them.

Kafka's LogSegments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, overload
from weakref import ref

from tailrace.log.config import LogSettings
from tailrace.log.filesystem.names import DELETED_SUFFIX
from tailrace.log.filesystem.pending_deletions import PendingDeletions
from tailrace.log.segment.search import indexes_of
from tailrace.log.segment.segment import SUFFIXES, Segment

_MAX_PLACES: Final = 64


def _damage_found(segments: ref[LogSegments], segment: Segment) -> None:
    here = segments()
    if here is not None:
        here.damage_found(segment)


class LogSegments(Sequence[Segment]):
    """At least one, but while a log is emptied; each follows the one before it."""

    def __init__(self, segments: list[Segment], settings: LogSettings) -> None:
        self._segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.places: dict[int, tuple[Segment, int]] = {}  # where the batch after a finished read begins
        self.pending_deletions = PendingDeletions()  # a log directory has one for all its logs
        self.has_aborted = any(segment.aborted for segment in segments)  # or had since the log was opened
        self.on_damage: Callable[[Segment], None] = lambda segment: None  # hears once of each damaged segment or index
        # A segment that held its log would keep the files of a deleted one, and their space, until a collection.
        self._on_damage = partial(_damage_found, ref(self))
        self.configure(settings)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...
    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        return self._segments[at]

    def configure(self, settings: LogSettings) -> None:
        """The topic's settings are these from now on."""
        self._settings = settings
        for segment in self._segments:
            self.own(segment)

    def own(self, segment: Segment) -> Segment:
        """Makes the segment one of this log's: with its settings, and telling it of damage."""
        segment.index_interval_bytes = self._settings.index_interval_bytes
        segment.index_bytes = self._settings.segment_index_bytes
        segment.on_damage = self._on_damage
        return segment

    def damage_found(self, segment: Segment) -> None:
        self.places.clear()
        with suppress(OSError):  # the indexes are right in memory; the guard hears of it
            indexes_of(segment)
            segment.save_indexes()
        self.on_damage(segment)

    def index_of(self, offset: int) -> int:
        """Of the segment that holds the offset, or of the first one."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def ends(self, log_end_offset: int) -> list[int]:
        """Where each of them ends."""
        return [*self.bases[1:], log_end_offset]

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """The batch that begins at the offset is at this place: a reader goes on there."""
        if len(self.places) >= _MAX_PLACES:
            self.places.clear()
        self.places[offset] = (segment, position)

    def retire(self, segment: Segment, now_ms: int = 0, delay_ms: int = 0) -> None:
        """Takes the segment's names away and has its files removed; a slice of it can still be read."""
        # The .log goes last, so that a crash in between leaves a segment whose indexes are rebuilt.
        for suffix in reversed(SUFFIXES):
            path = segment.path(suffix)
            with suppress(FileNotFoundError):
                segment.filesystem.rename(path, path + DELETED_SUFFIX)
                self.pending_deletions.add(path + DELETED_SUFFIX, now_ms, delay_ms)

    # -- what comes and goes; the files of those that go are the caller's ----------------------------------------------

    def add(self, segment: Segment) -> None:
        """Takes appends from now on."""
        if self._segments:
            self.active.end_offset = segment.base_offset
        self._segments.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment

    def drop_active(self) -> None:
        """The one before it takes appends again, if there is one."""
        del self._segments[-1], self.bases[-1]
        self.places.clear()
        if self._segments:
            self.active = self._segments[-1]

    def keep_first(self, count: int) -> None:
        """The last of them takes appends again."""
        del self._segments[count:], self.bases[count:]
        self.places.clear()
        self.active = self._segments[-1]
        self.active.end_offset = None

    def drop_first(self, count: int) -> None:
        del self._segments[:count], self.bases[:count]
        self.places.clear()

    def replace(self, at: int, count: int, by: Segment) -> None:
        """One that compaction has written takes the place of some that it has read."""
        self.bases[at : at + count] = self.bases[at : at + 1]
        self._segments[at : at + count] = [self.own(by)]
        self.places.clear()

    def clear(self) -> None:
        """Something must be added next."""
        self._segments, self.bases = [], []
        self.places.clear()

"""What a log consists of, and what its operations share: segments that follow one another, offsets, what is unsynced.

Kafka's LocalLog. Log (log.py, Kafka's UnifiedLog) adds what others ask of it; append.py, truncate.py, retention.py,
flush.py and compaction/plan.py are its larger operations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final
from weakref import ref

from tailrace.log.compaction.cleanable import Dirt, assess
from tailrace.log.compaction.rewrite import Compaction
from tailrace.log.config import LogSettings
from tailrace.log.directory.deletion import Doomed
from tailrace.log.filesystem.port import File, Filesystem
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.limits import Limits
from tailrace.log.producers.snapshots import save_producers
from tailrace.log.producers.state import ProducerState
from tailrace.log.read import Reader
from tailrace.log.segment.search import indexes_of
from tailrace.log.segment.segment import Segment
from tailrace.log.unsynced import Unsynced

PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


def _hear(log: ref[LocalLog], segment: Segment) -> None:
    here = log()
    if here is not None:
        here.heard_damage(segment)


class LocalLog:
    """Offsets are absolute, times are milliseconds, sizes bytes."""

    def __init__(
        self, filesystem: Filesystem, directory: str, config: LogSettings, segments: list[Segment], epochs: LeaderEpochs
    ) -> None:
        self.directory = directory
        # A segment that held its log would keep the files of a deleted one, and their space, until a collection.
        self._hears = partial(_hear, ref(self))
        self.epochs = epochs
        self.latest_epoch = epochs.latest  # as an attribute, for the append path
        self.producers = ProducerState()
        self.has_aborted = any(segment.aborted for segment in segments)  # or had since it was opened
        self.producer_id_expiration_ms = PRODUCER_ID_EXPIRATION_MS
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.lower_recovery_point: Callable[[int], None] = lambda offset: None  # makes it durable; may raise OSError
        self.lower_cleaned_offset: Callable[[int], None] = lambda offset: None  # likewise
        self.cleaned_offset = 0  # compaction has seen everything below (cleaner-offset-checkpoint)
        self.cut_bytes = 0  # what recovery took off the tail when the log was opened
        self.epochs_mended = False  # leader-epoch-checkpoint was damaged then
        self.on_damage: Callable[[Segment], None] = lambda segment: None  # hears once of each damaged segment or index
        self.storage_error: OSError | None = None  # of the last failed write
        self.filesystem = filesystem
        self.reader = Reader()
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.places: dict[int, tuple[Segment, int]] = {}  # where the batch after a finished read begins
        self.doomed = Doomed()
        self.flushed_ms = 0
        self.flushed_end = 0  # of the flushes that were begun
        self.compaction: Compaction | None = None  # the pass that may still be finished
        self.snapshot_offset = -1  # of the last snapshot written
        # Names that a crash could still take back; the partition's own is in the parent.
        self.unsynced = Unsynced(directory, directory.rpartition("/")[0])
        self.cuts = 0  # how often the log's end went back: a flush or a copy begun before may hold what it does not
        self.closed_end = -1  # the log end when all files were last as a clean start needs them
        self.config = config

    # -- settings and sizes ------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogSettings:
        """The topic's settings; assign when they change."""
        return self._config

    @config.setter
    def config(self, config: LogSettings) -> None:
        self._config = config
        self.limits = Limits(config)
        for segment in self.segments:
            self.own(segment)

    @property
    def size_bytes(self) -> int:
        """Of all .log files."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def leader_epoch(self) -> int:
        """The last epoch that wrote records, -1 if none did."""
        return self.epochs.latest

    @property
    def first_base_offset(self) -> int:
        return self.bases[0]

    @property
    def segment_base_offsets(self) -> list[int]:
        return list(self.bases)

    # -- what operations share ---------------------------------------------------------------------------------------

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """Takes up that the leader epoch's first record is at start_offset."""
        self.latest_epoch = max(self.latest_epoch, epoch)
        if self.epochs.assign(epoch, start_offset):
            self.unsynced.epochs_changed()

    def advance_log_start_offset(self, offset: int) -> None:
        """DeleteRecords: nothing below offset is served any more; whole segments go with the next delete_retention.

        The caller has checked that offset is not above the high watermark.
        """
        assert offset <= self.log_end_offset
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.unsynced.epochs_changed()

    def roll(self, base_offset: int = -1) -> None:
        """Closes the active segment and begins one at the log end, or at base_offset if that lies behind it.

        Nothing happens if it is empty and begins there already. One that a cut within a gap of compaction has left
        empty goes: after a crash an empty segment is one that has lost its records (recovery.check_tail).
        """
        base_offset = max(base_offset, self.log_end_offset)
        old = self.active
        if not old.size_bytes and old.base_offset == base_offset:
            return
        emptied = not old.size_bytes and old.base_offset < self.log_end_offset
        old.seal()
        indexes = self.save_indexes(old)
        if self.log_end_offset <= max(self.recovery_point, self.flushed_end):
            # A recovery point at its end says that nothing of it need be checked: recovery believes its indexes.
            old.sync(*indexes)
        self.closed_end = -1
        self.save_snapshot()
        segment = self.new_segment(base_offset)
        try:
            segment.create()
            if emptied:
                self._drop_active()
        except OSError:
            # Its name may be there: nothing is appended behind its base offset before the roll has succeeded.
            old.full = True
            raise
        self.take_up(segment)

    def _drop_active(self) -> None:
        self.doomed.take(self.active)
        del self.segments[-1], self.bases[-1]
        self.places.clear()
        if self.segments:
            self.active = self.segments[-1]

    def new_segment(self, base_offset: int) -> Segment:
        return self.own(Segment(self.filesystem, self.directory, base_offset, self._config.index_interval_bytes))

    def own(self, segment: Segment) -> Segment:
        """Makes the segment one of this log's: with its settings, its reader, and telling it of damage."""
        segment.index_interval_bytes = self._config.index_interval_bytes
        segment.index_bytes = self._config.segment_index_bytes
        segment.on_damage, segment.reader = self._hears, self.reader
        return segment

    def heard_damage(self, segment: Segment) -> None:
        self.places.clear()
        with suppress(OSError):  # the indexes are right in memory; the guard hears of it
            indexes_of(segment)
            segment.save_indexes()
        self.on_damage(segment)

    def take_up(self, segment: Segment) -> None:
        if self.segments:
            self.active.end_offset = segment.base_offset
        self.segments.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment
        self.unsynced.names_changed(self.directory)

    def save_indexes(self, segment: Segment) -> tuple[File, ...]:
        if segment.aborted is not None and not segment.aborted.named:
            self.unsynced.names_changed(self.directory)
        indexes_of(segment)
        return segment.save_indexes()

    def save_snapshot(self) -> None:
        if self.snapshot_offset != self.log_end_offset:
            save_producers(self.filesystem, self.directory, self.producers, self.log_end_offset)
            self.snapshot_offset = self.log_end_offset

    def dirt(self, now_ms: int, limit: int) -> Dirt | None:
        """How much a pass over the closed segments below limit could clean; None where there is nothing to clean."""
        return assess(self.segments, self.cleaned_offset, limit, self._config, now_ms)

    def unflushed_segments(self) -> list[Segment]:
        return self.segments[max(0, bisect_right(self.bases, self.recovery_point) - 1) :]

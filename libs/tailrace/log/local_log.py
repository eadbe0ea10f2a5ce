"""What a log consists of, and what its operations share: segments that follow one another, offsets, what is unsynced.

Kafka's LocalLog. Log (log.py, Kafka's UnifiedLog) adds what others ask of it; append.py, truncate.py, retention.py,
flush.py and compaction/plan.py are its larger operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.log.config import LogSettings
from tailrace.log.filesystem.port import File, Filesystem
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.limits import Limits
from tailrace.log.producers.snapshots import PendingSnapshot, producers_at, save_producers, snapshot_offsets
from tailrace.log.producers.state import ProducerState
from tailrace.log.segment.search import indexes_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segments import LogSegments
from tailrace.log.unsynced import Unsynced

PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class RecoveryResult(NamedTuple):
    """What recovery found when the log was opened."""

    cut_bytes: int = 0  # taken off the tail
    epochs_mended: bool = False  # leader-epoch-checkpoint was damaged


class Hooks:
    """What a log asks of its log directory, or reports to it."""

    __slots__ = ("lower_checkpoint", "on_producers_evicted")

    def __init__(self) -> None:
        # Makes durable that an offset of this log in one of the directory's checkpoints goes back; may raise OSError.
        self.lower_checkpoint: Callable[[str, int], None] = lambda name, offset: None
        self.on_producers_evicted: Callable[[int], None] = lambda count: None


class LocalLog:
    """Offsets are absolute, times are milliseconds, sizes bytes."""

    def __init__(
        self, filesystem: Filesystem, directory: str, config: LogSettings, segments: list[Segment], epochs: LeaderEpochs
    ) -> None:
        self.filesystem = filesystem
        self.directory = directory
        self.segments = LogSegments(segments, config)
        self.limits = Limits(config)
        self.epochs = epochs
        self.producers = ProducerState()
        self.producer_id_expiration_ms = PRODUCER_ID_EXPIRATION_MS
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.cleaned_offset = 0  # compaction has seen everything below (cleaner-offset-checkpoint)
        self.compaction: object | None = None  # the pass that may still be finished
        self.hooks = Hooks()
        self.recovery_result = RecoveryResult()
        self.storage_error: OSError | None = None  # of the last failed write
        self.unsynced = Unsynced(directory)
        self.cuts = 0  # how often the log's end went back: a flush or a copy begun before may hold what it does not

    # -- settings and sizes ------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogSettings:
        """The topic's settings; assign when they change."""
        return self.limits.settings

    @config.setter
    def config(self, config: LogSettings) -> None:
        self.limits = Limits(config)
        self.segments.configure(config)

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
        return self.segments.bases[0]

    @property
    def segment_base_offsets(self) -> list[int]:
        return list(self.segments.bases)

    # -- what operations share ---------------------------------------------------------------------------------------

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """Takes up that the leader epoch's first record is at start_offset."""
        if self.epochs.assign(epoch, start_offset):
            self.unsynced.epochs_changed()

    def count_evicted(self) -> None:
        """Producers had to go because the log had too many."""
        evicted, self.producers.evicted = self.producers.evicted, 0
        self.hooks.on_producers_evicted(evicted)

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
        old = self.segments.active
        if not old.size_bytes and old.base_offset == base_offset:
            return
        emptied = not old.size_bytes and old.base_offset < self.log_end_offset
        old.seal()
        indexes = self.save_indexes(old)
        if self.log_end_offset <= max(self.recovery_point, self.unsynced.begun_end):
            # A recovery point at its end says that nothing of it need be checked: recovery believes its indexes.
            old.sync(*indexes)
        self.unsynced.closed_end = -1
        self.take_snapshot()
        segment = self.new_segment(base_offset)
        try:
            segment.create()
            if emptied:
                self.segments.retire(self.segments.active)
                self.segments.drop_active()
        except OSError:
            # Its name may be there: nothing is appended behind its base offset before the roll has succeeded.
            old.full = True
            raise
        self.take_up(segment)

    def new_segment(self, base_offset: int) -> Segment:
        segment = Segment(self.filesystem, self.directory, base_offset, self.config.index_interval_bytes)
        return self.segments.own(segment)

    def take_up(self, segment: Segment) -> None:
        self.segments.add(segment)
        self.unsynced.names_changed(self.directory)

    def save_indexes(self, segment: Segment) -> tuple[File, ...]:
        if segment.aborted is not None and not segment.aborted.named:
            self.unsynced.names_changed(self.directory)
        indexes_of(segment)
        return segment.save_indexes()

    def take_snapshot(self) -> None:
        """The next flush writes the producers as they are now."""
        if self.unsynced.snapshot_offset != self.log_end_offset:
            self.unsynced.snapshots.append(PendingSnapshot(self.log_end_offset, dict(self.producers.entries)))
            self.unsynced.snapshot_offset = self.log_end_offset

    def keep_producers(self, offset: int) -> None:
        """Batches below offset, a segment's, are about to go: a snapshot as of it must have their producers.

        A later one would not do: a truncation to offset removes it. Where there are no producers there is none to keep.
        """
        if not self.producers.entries or offset in snapshot_offsets(self.filesystem, self.directory):
            return
        snapshot = next((one for one in self.unsynced.snapshots if one.offset == offset), None)
        if snapshot is not None:
            self.unsynced.snapshots.remove(snapshot)
        else:  # a crash came before it was written
            state = producers_at(self.filesystem, self.directory, self.segments, offset)
            snapshot = PendingSnapshot(offset, state.entries)
        save_producers(self.filesystem, self.directory, snapshot)

    def unflushed_segments(self) -> list[Segment]:
        return self.segments[self.segments.index_of(self.recovery_point) :]

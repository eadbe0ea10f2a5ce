"""What a log consists of, and what its operations share: segments that follow one another, offsets, what is unsynced.

Kafka's LocalLog. Log (log.py, Kafka's UnifiedLog) adds what others ask of it; append.py, retention.py,
flush.py and compaction/plan.py are its larger operations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.log.config import LogSettings
from tailrace.log.filesystem.checkpoints import CLEANER_OFFSET, LOG_START_OFFSET, RECOVERY_POINT
from tailrace.log.filesystem.port import File, Filesystem
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.limits import Limits
from tailrace.log.producers.snapshots import (
    PendingSnapshot,
    load_producers,
    producers_at,
    remove_all_snapshots,
    remove_snapshots_above,
    save_producers,
    snapshot_offsets,
)
from tailrace.log.producers.state import ProducerState
from tailrace.log.segment import tail
from tailrace.log.segment.search import indexes_of, position_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.valid import headers
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

    # -- cut ---------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cuts everything from the batch that holds offset on (replication).

        Where nothing is cut, an epoch that began at the log end and never wrote goes all the same: its leader may have
        been deposed before its first record, and a later epoch begins there (KIP-279).
        """
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self.unsynced.epochs_changed()
            return
        keep = bisect_right(self.segments.bases, offset)
        if keep == 0:
            self.reset_to(offset)
            return
        self._lower_checkpoints(offset)
        for segment in reversed(self.segments[keep:]):  # newest first: a crash in between leaves no gap
            self.segments.retire(segment)
        # With them, or a snapshot of what was cut could come back behind new records of its offsets.
        remove_snapshots_above(self.filesystem, self.directory, offset)
        self.filesystem.sync_directory(self.directory)
        self.segments.keep_first(keep)
        active = self.segments.active
        position = position_of(active, offset)
        end_offset = offset
        if position < active.size_bytes:
            end_offset = min(offset, next(headers(active, position))[1].base_offset)
        tail.truncate(active, position)
        self._after_cut(end_offset)

    def _lower_checkpoints(self, offset: int) -> None:
        """Before the log is cut at offset."""
        if offset < self.recovery_point:
            # On the disk before the cut: recovery believes what lies below, and new records are about to.
            self.hooks.lower_checkpoint(RECOVERY_POINT, self._end_before(offset))
        if offset < self.cleaned_offset:
            # Or a pass after a crash would take new records for ones that it has seen, and let old values live.
            self.hooks.lower_checkpoint(CLEANER_OFFSET, offset)
        if offset < self.log_start_offset:
            # Or new records that end below it would be taken for deleted ones.
            self.hooks.lower_checkpoint(LOG_START_OFFSET, self._end_before(offset))

    def _end_before(self, offset: int) -> int:
        """Where the last batch before the one that holds offset ends.

        Not where that one begins: should a crash come before the cut, recovery would find it behind a gap (of
        compaction) below its recovery point, and might take its base offset for a damaged one.
        """
        segment = self.segments[self.segments.index_of(offset)]
        position, end = position_of(segment, offset), segment.base_offset
        for at, header in headers(segment, indexes_of(segment)[0].floor_position(max(0, position - 1))):
            if at >= position:
                break
            end = header.next_offset
        return min(offset, end)

    def reset_to(self, offset: int) -> None:
        """Drops everything and begins again at offset; nothing is known of producers any more, as in Kafka."""
        self._lower_checkpoints(offset)
        remove_all_snapshots(self.filesystem, self.directory)
        for segment in self.segments:
            self.segments.retire(segment)
        self.filesystem.sync_directory(self.directory)
        self.segments.clear()
        self.log_start_offset = offset
        segment = self.new_segment(offset)
        segment.forget_indexes()
        self.take_up(segment)
        self._after_cut(offset)
        segment.create()  # last: if it fails nothing more is taken, and nothing goes where the old segments were

    def _after_cut(self, end_offset: int) -> None:
        self.cuts += 1
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, end_offset)
        self.segments.places.clear()
        self.unsynced.cut()
        # What the cut took may have superseded what a pass on its way leaves out.
        self.compaction = None
        if self.epochs.truncate_from_end(end_offset):
            self.unsynced.epochs_changed()
        self.producers = load_producers(self.filesystem, self.directory, self.segments, end_offset)

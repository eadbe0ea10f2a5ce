"""What the offset checkpoints of one log directory say: in memory as it was last known, and written from any thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from threading import Lock

from tailrace.kafka.ids import TopicPartition
from tailrace.log.directory.checkpoint_copies import read_checkpoint, write_checkpoint
from tailrace.log.filesystem.checkpoints import (
    CLEANER_OFFSET,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    REPLICATION_OFFSET,
    DamagedCheckpoint,
    format_offsets,
    parse_offsets,
)
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.log import Log


class DirOffsets:
    """Four checkpoints and who was taken out of them; `unsettled` are those of which the disk may not know yet."""

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.unsettled: set[TopicPartition] = set()
        self._filesystem = filesystem
        self._path = path
        self._writing = Lock()
        self._starts_noted = self._starts_written = 0  # how often log start offsets changed, and what was written

    def by_name(self) -> dict[str, dict[TopicPartition, int]]:
        """What is in each checkpoint."""
        return {
            RECOVERY_POINT: self.recovery_points,
            LOG_START_OFFSET: self.log_start_offsets,
            CLEANER_OFFSET: self.cleaned_offsets,
            REPLICATION_OFFSET: self.high_watermarks,
        }

    def read(self, name: str) -> tuple[bool, bool]:
        """Takes up a checkpoint as the disk has it: whether it was damaged and is mended, whether it is believed."""
        content, mended = read_checkpoint(self._filesystem, self._path, name, parse_offsets)
        try:
            self.by_name()[name].update(parse_offsets(content) if content is not None else {})
        except (DamagedCheckpoint, ValueError):
            return mended, False
        return mended, True

    def keep(self, keys: Collection[TopicPartition]) -> None:
        """Only these are here: a crash may have come between another's going and the checkpoints that say so."""
        for offsets in self.by_name().values():
            for key in [key for key in offsets if key not in keys]:
                del offsets[key]
                self.unsettled.add(key)

    def forget(self, key: TopicPartition) -> None:
        """The partition was taken away."""
        for offsets in self.by_name().values():
            offsets.pop(key, None)
        self.unsettled.add(key)

    def settle(self) -> None:
        """As LogDir.settle."""
        with self._writing:
            keys = set(self.unsettled)
            if not keys:
                return
            self._filesystem.sync_directory(self._path)
            for name in self.by_name():
                self._write(name)
            self.unsettled -= keys

    def lower(self, key: TopicPartition, name: str, offset: int | None) -> None:
        """Lowers (None: forgets) one offset on the disk, and keeps older checkpoints on their way from it."""
        offsets = self.by_name()[name]
        with self._writing:
            if offset is None:
                offsets.pop(key, None)
            else:
                offsets[key] = offset
            self._write(name)

    def note(self, key: TopicPartition, log: Log) -> None:
        """Takes note of what the checkpoints are to say of an open log."""
        self.recovery_points[key] = log.recovery_point
        if log.cleaned_offset:
            self.cleaned_offsets[key] = log.cleaned_offset
        self._note_start(key, log)

    def note_at_most(self, key: TopicPartition, log: Log) -> None:
        """As note, of a log that failed on the way: what was lowered before stays so."""
        recovery_point, cleaned = self.recovery_points.get(key), self.cleaned_offsets.get(key)
        self.note(key, log)
        if recovery_point is not None:
            self.recovery_points[key] = min(recovery_point, log.recovery_point)
        if cleaned is not None:
            self.cleaned_offsets[key] = min(cleaned, log.cleaned_offset)

    def note_cleaned(self, logs: Mapping[TopicPartition, Log]) -> None:
        """As note, of the cleaned offsets alone."""
        for key, log in logs.items():
            if log.cleaned_offset:
                self.cleaned_offsets[key] = log.cleaned_offset

    def begin_log_start(self, key: TopicPartition, log: Log) -> Callable[[], None]:
        """The checkpoint of log start offsets, with this log's: one write serves all that were begun before it."""
        self._note_start(key, log)
        return partial(self._write_starts, self._starts_noted)

    def _write_starts(self, noted: int) -> None:
        with self._writing:
            if self._starts_written < noted:
                noted = self._starts_noted  # before the offsets are read: what comes meanwhile may be missing in them
                self._write(LOG_START_OFFSET)
                self._starts_written = noted

    def write_all(self) -> None:
        """Writes every checkpoint, in another thread if you like. Raises OSError."""
        for name in self.by_name():
            self.write(name)

    def write(self, name: str) -> None:
        """Writes one checkpoint as it is now, in another thread if you like. Raises OSError."""
        with self._writing:
            self._write(name)

    def _note_start(self, key: TopicPartition, log: Log) -> None:
        noted = self.log_start_offsets.get(key)
        if log.log_start_offset > log.segments.bases[0]:
            self.log_start_offsets[key] = log.log_start_offset
        else:
            self.log_start_offsets.pop(key, None)
        if self.log_start_offsets.get(key) != noted:
            self._starts_noted += 1

    def _write(self, name: str) -> None:
        """Under the lock: an older state never comes after a newer one."""
        content = format_offsets(self.by_name()[name].copy())  # a copy takes no turn of the loop from others
        write_checkpoint(self._filesystem, self._path, name, content)

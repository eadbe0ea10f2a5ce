"""What is due to reach the disk, as an fsync that is handed out: it can run in another thread than the log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from tailrace.log.directory.checkpoints import LEADER_EPOCH, PARTITION_METADATA, format_epochs
from tailrace.log.filesystem.port import File, Filesystem, join, write_file_atomically
from tailrace.log.producers.snapshots import remove_snapshots

if TYPE_CHECKING:
    from tailrace.log.log import Log


class Unsynced:
    """What beside the segments' bytes must reach the disk before the recovery point may move."""

    __slots__ = ("directories", "epochs", "gone", "is_renamed", "metadata", "version")

    def __init__(self, *directories: str) -> None:
        self.directories = set(directories)
        self.epochs = True
        self.version = 0
        self.is_renamed = False  # the log's directory has a name that may not be on the disk
        self.metadata = False  # partition.metadata was written without a sync
        self.gone = False  # the log was deleted; read by flushes in other threads

    def __bool__(self) -> bool:
        return self.epochs or bool(self.directories)

    def names_changed(self, directory: str) -> None:
        self.version += 1
        self.directories.add(directory)

    def renamed(self, old: str, new: str) -> None:
        """The log's directory: its name must reach the disk, in the directory above."""
        self.version += 1
        self.directories.discard(old)
        self.directories |= {new, new.rpartition("/")[0]}
        self.is_renamed = True

    def epochs_changed(self) -> None:
        # The file is written by a flush only: until then recovery finds the epochs in the batches that it checks, and
        # a file replaced without a sync could be empty after a crash, with all that earlier epochs were known by.
        self.version += 1
        self.epochs = True

    def done(self, version: int) -> None:
        """A flush that began at version is over; it covers everything if nothing was added since."""
        if version == self.version:
            self.directories.clear()
            self.epochs = self.is_renamed = False


class Flush(NamedTuple):
    """An fsync on its way; run() may be called in another thread."""

    filesystem: Filesystem
    directory: str
    files: list[File]
    names: list[str]
    epochs: list[tuple[int, int]] | None
    version: int
    offset: int
    now_ms: int
    cuts: int = 0
    unsynced: Unsynced | None = None
    failed: OSError | None = None  # of an earlier sync, which this one must not hide
    metadata: bool = False

    def run(self) -> None:
        """Returns when everything below offset is on the disk; after an OSError the log must be opened anew."""
        if self.failed is not None:
            raise self.failed
        for file in self.files:
            file.sync()
        if self.unsynced is not None and self.unsynced.gone:
            return  # deleted: a new log of that name may be there by now, and these are not its epochs
        if self.metadata:
            # Records whose topic nobody knows any more would be taken for those of the next topic of that name.
            with suppress(FileNotFoundError):  # Kafka wrote none once
                self.filesystem.open(join(self.directory, PARTITION_METADATA)).sync()
        if self.epochs is not None:
            content, alone = format_epochs(self.epochs), self.directory not in self.names
            write_file_atomically(self.filesystem, self.directory, LEADER_EPOCH, content, sync_name=alone)
        for name in self.names:
            self.filesystem.sync_directory(name)


def begin(log: Log, now_ms: int, *, everything: bool = False) -> Flush | None:
    """As Log.begin_flush."""
    unflushed = log.log_end_offset - log.recovery_point
    if not unflushed and not (everything and log.unsynced.is_renamed):
        log.flushed_ms = now_ms
        return None
    due = unflushed >= log.config.flush_messages or now_ms - log.flushed_ms >= log.config.flush_ms
    if not everything and not due and log.recovery_point >= log.active.base_offset:
        return None
    files: list[File] = []
    for segment in log.unflushed_segments():
        if segment is not log.active:
            files += (segment.file, *log.save_indexes(segment))
        elif everything or due:
            files.append(segment.file)
    offset = log.log_end_offset if everything or due else log.active.base_offset
    log.flushed_end = offset
    return _flush_of(log, files, offset, now_ms)


def begin_close(log: Log) -> Flush | None:
    """As Log.begin_close."""
    as_opened = log.closed_end == log.log_end_offset and not log.unsynced
    if as_opened and not log.active.ragged and log.active.failed_sync is None:
        return None
    log.active.seal()
    if log.log_end_offset:
        log.save_snapshot()
    remove_snapshots(log.filesystem, log.directory, log.bases)
    files: list[File] = []
    for segment in log.unflushed_segments():
        files += (segment.file, *log.save_indexes(segment))
    return _flush_of(log, files, log.log_end_offset, 0)


def _flush_of(log: Log, files: list[File], offset: int, now_ms: int) -> Flush:
    """The flush of these files and of what is unsynced beside them."""
    unsynced, failed = log.unsynced, log.active.failed_sync
    epochs = log.epochs.entries() if unsynced.epochs else None
    names = sorted(unsynced.directories)
    begun = (log.filesystem, log.directory, files, names, epochs, unsynced.version, offset, now_ms)
    return Flush(*begun, log.cuts, unsynced, failed, unsynced.metadata and log.log_end_offset > 0)

"""What is due to reach the disk, as an fsync that is handed out: it can run in another thread than the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from tailrace.log.filesystem.checkpoints import LEADER_EPOCH, PARTITION_METADATA, format_epochs
from tailrace.log.filesystem.port import File, Filesystem, join, write_file_atomically
from tailrace.log.local_log import LocalLog
from tailrace.log.producers.snapshots import SnapshotFile, remove_snapshots
from tailrace.log.unsynced import Unsynced


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
    snapshots: Sequence[SnapshotFile] = ()

    def run(self) -> None:
        """Returns when everything below offset is on the disk; after an OSError the log must be opened again."""
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
        for snapshot in self.snapshots:
            with suppress(FileNotFoundError):  # deleted just now
                snapshot.write()
        if self.epochs is not None:
            content, alone = format_epochs(self.epochs), self.directory not in self.names
            write_file_atomically(self.filesystem, self.directory, LEADER_EPOCH, content, sync_name=alone)
        for name in self.names:
            self.filesystem.sync_directory(name)


def begin(log: LocalLog, now_ms: int, *, everything: bool = False) -> Flush | None:
    """As Log.begin_flush."""
    unflushed = log.log_end_offset - log.recovery_point
    snapshots = log.unsynced.snapshots
    if not unflushed and not snapshots and not (everything and log.unsynced.is_renamed):
        log.unsynced.flushed_ms = now_ms
        return None
    due = unflushed >= log.config.flush_messages or now_ms - log.unsynced.flushed_ms >= log.config.flush_ms
    if not everything and not due and not snapshots and log.recovery_point >= log.segments.active.base_offset:
        return None
    files: list[File] = []
    for segment in log.unflushed_segments():
        if segment is not log.segments.active:
            files += (segment.file, *log.save_indexes(segment))
        elif everything or due:
            files.append(segment.file)
    offset = log.log_end_offset if everything or due else log.segments.active.base_offset
    log.unsynced.begun_end = offset
    return _flush_of(log, files, offset, now_ms)


def begin_close(log: LocalLog) -> Flush | None:
    """As Log.begin_close."""
    as_opened = log.unsynced.closed_end == log.log_end_offset and not log.unsynced
    if as_opened and not log.segments.active.ragged and log.segments.active.failed_sync is None:
        return None
    log.segments.active.seal()
    if log.log_end_offset:
        log.take_snapshot()
    remove_snapshots(log.filesystem, log.directory, log.segments.bases)
    files: list[File] = []
    for segment in log.unflushed_segments():
        files += (segment.file, *log.save_indexes(segment))
    return _flush_of(log, files, log.log_end_offset, 0)


def _flush_of(log: LocalLog, files: list[File], offset: int, now_ms: int) -> Flush:
    """The flush of these files and of what is unsynced beside them."""
    unsynced, failed = log.unsynced, log.segments.active.failed_sync
    epochs = log.epochs.entries() if unsynced.epochs else None
    names = sorted(unsynced.directories)
    begun = (log.filesystem, log.directory, files, names, epochs, unsynced.version, offset, now_ms)
    metadata = unsynced.metadata and log.log_end_offset > 0
    snapshots = [SnapshotFile(log.filesystem, log.directory, snapshot) for snapshot in unsynced.snapshots]
    return Flush(*begun, log.cuts, unsynced, failed, metadata, snapshots)

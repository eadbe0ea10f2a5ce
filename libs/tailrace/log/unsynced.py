"""What a log owes the disk, and what it has brought there: names, epochs, partition.metadata, snapshots, flushes."""

from __future__ import annotations

from tailrace.log.producers.snapshots import PendingSnapshot


class Unsynced:
    """What beside the segments' bytes must reach the disk before the recovery point may move."""

    __slots__ = (
        "begun_end",
        "closed_end",
        "directories",
        "epochs",
        "flushed_ms",
        "gone",
        "is_renamed",
        "metadata",
        "snapshot_offset",
        "snapshots",
        "version",
    )

    def __init__(self, directory: str) -> None:
        # Names that a crash could still take back; the partition's own is in the parent.
        self.directories = {directory, directory.rpartition("/")[0]}
        self.flushed_ms = 0  # when the last flush was begun
        self.begun_end = 0  # where the flushes end that were begun
        self.closed_end = -1  # the log end when all files were last as a clean start needs them
        self.snapshots: list[PendingSnapshot] = []  # of the producers, one of each roll, which the next flush writes
        self.snapshot_offset = -1  # of the last one that was taken
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

    def cut(self) -> None:
        """The log's end went back: its files are not those of a clean start, and its snapshots are gone."""
        self.closed_end = self.snapshot_offset = -1
        self.snapshots.clear()

    def done(self, version: int) -> None:
        """A flush that began at version is over; it covers everything if nothing was added since."""
        if version == self.version:
            self.directories.clear()
            self.epochs = self.is_renamed = False

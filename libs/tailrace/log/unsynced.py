"""What a log still owes the disk beside the bytes of its segments: names, epochs, partition.metadata."""

from __future__ import annotations


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

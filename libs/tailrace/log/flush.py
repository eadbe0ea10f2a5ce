"""An fsync that is handed out, so that it can run in another thread than the log."""

from __future__ import annotations

from tailrace.log.filesystem import File, Filesystem


class Flush:
    """An fsync on its way; run() may be called in another thread."""

    __slots__ = ("_directories", "_files", "_filesystem", "now_ms", "offset")

    def __init__(
        self, filesystem: Filesystem, directories: list[str], files: list[File], offset: int, now_ms: int
    ) -> None:
        self._filesystem = filesystem
        self._directories = directories
        self._files = files
        self.offset = offset
        self.now_ms = now_ms

    def run(self) -> None:
        """Returns when everything below offset is on the disk; after an OSError the log must be opened anew."""
        for file in self._files:
            file.sync()
        for directory in self._directories:
            self._filesystem.sync_directory(directory)

"""A log dir's disk under guard: the first failure of a write, fsync or read takes the whole dir offline (KIP-858).

After a failed fsync the kernel forgets what it could not write and the next fsync says yes, so nothing that is written
after the failure could be promised. From the failure on nothing is written, synced, renamed or removed here any more;
only a new start, which checks the logs from their recovery points, takes the directory up again. The page cache goes on
showing what no disk has, so a mark tells that start to read it from the disk (directory/reread.py).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.port import File, FileStat, Filesystem
from tailrace.records.batch import Bytes

# What the log asks for knowing that it may not be there, and what this process lacks rather than the disk.
_NOT_THE_DISK: Final = frozenset(
    {
        errno.ENOENT,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENAMETOOLONG,
        errno.EAGAIN,
        errno.EINTR,
        errno.EBADF,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    }
)


class DirectoryOffline(OSError):
    """The log directory failed earlier; says why."""

    def __init__(self, failure: OSError) -> None:
        super().__init__(errno.EIO, f"the log directory is offline: {failure}")


class Guard:
    """A Filesystem that remembers its first failure; `on_failure` hears of it once, in whichever thread it happened."""

    def __init__(self, filesystem: Filesystem) -> None:
        self.failure: OSError | None = None
        self.on_failure: Callable[[OSError], None] = lambda failure: None
        self.mark = ""  # the path of the file that a failure leaves; none without
        self.unmarked: OSError | None = None  # why the failure left none
        self._filesystem = filesystem

    @property
    def open_files(self) -> OpenFiles:
        return self._filesystem.open_files

    def fail(self, failure: OSError) -> None:
        """The disk is not to be trusted from now on."""
        if self.failure is None:
            self.failure = failure
            self._leave_mark(failure)
            self.on_failure(failure)

    def _leave_mark(self, failure: OSError) -> None:
        """In the page cache, which needs no sync: a mark that goes with it at the next boot is not missed."""
        if self.mark:
            try:
                file = self._filesystem.open(self.mark, create=True)
            except OSError as refused:
                self.unmarked = refused
                return
            with suppress(OSError):  # its name is what counts
                file.pwritev([f"{failure}\n".encode()], 0)

    def note(self, error: OSError) -> None:
        """An operation failed; takes the disk offline if that is the disk's fault."""
        if error.errno not in _NOT_THE_DISK:
            self.fail(error)

    def check(self) -> None:
        """Raises DirectoryOffline after a failure."""
        if self.failure is not None:
            raise DirectoryOffline(self.failure)

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            self.check()
        try:
            return GuardedFile(self, self._filesystem.open(path, create=create))
        except OSError as error:
            self.note(error)
            raise

    def list(self, path: str) -> list[str]:
        try:
            return self._filesystem.list(path)
        except OSError as error:
            self.note(error)
            raise

    def make_directory(self, path: str) -> None:
        self._change(lambda: self._filesystem.make_directory(path))

    def rename(self, source: str, target: str) -> None:
        self._change(lambda: self._filesystem.rename(source, target))

    def remove(self, path: str) -> None:
        self._change(lambda: self._filesystem.remove(path))

    def sync_directory(self, path: str) -> None:
        self._change(lambda: self._filesystem.sync_directory(path))

    def lock(self, path: str) -> File:
        return self._filesystem.lock(path)

    def _change(self, change: Callable[[], None]) -> None:
        self.check()
        try:
            change()
        except OSError as error:
            self.note(error)
            raise


class GuardedFile:
    """A File whose errors its guard hears of."""

    __slots__ = ("_file", "_guard")

    def __init__(self, guard: Guard, file: File) -> None:
        self._guard = guard
        self._file = file

    @property
    def unsynced(self) -> bool:
        return self._file.unsynced

    @property
    def held(self) -> object | None:
        return self._file.held

    @held.setter
    def held(self, held: object | None) -> None:
        self._file.held = held

    def owe_sync(self) -> None:
        self._file.owe_sync()

    def fileno(self) -> int:
        return self._file.fileno()

    def pread(self, length: int, position: int) -> bytes:
        try:
            return self._file.pread(length, position)
        except OSError as error:
            self._guard.note(error)
            raise

    def pread_cached(self, length: int, position: int) -> Bytes | None:
        try:
            return self._file.pread_cached(length, position)
        except OSError as error:
            self._guard.note(error)
            raise

    def cached(self, length: int, position: int) -> bool:
        try:
            return self._file.cached(length, position)
        except OSError as error:
            self._guard.note(error)
            raise

    def resident(self, position: int) -> bool:
        try:
            return self._file.resident(position)
        except OSError as error:
            self._guard.note(error)
            raise

    def warm(self, length: int, position: int) -> None:
        try:
            self._file.warm(length, position)
        except OSError as error:
            self._guard.note(error)
            raise

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        guard = self._guard
        if guard.failure is not None:
            raise DirectoryOffline(guard.failure)
        try:
            self._file.pwritev(buffers, position)
        except OSError as error:
            guard.note(error)
            raise

    def truncate(self, size_bytes: int) -> None:
        # Also after a failure: what a write left half done is cut off where the disk still lets us.
        try:
            self._file.truncate(size_bytes)
        except OSError as error:
            self._guard.note(error)
            raise

    def sync(self) -> None:
        self._guard.check()
        try:
            self._file.sync()
        except OSError as error:
            self._guard.note(error)
            raise
        # Of two at a time one may hear of a lost page that both had: who ends after the failure promises nothing.
        self._guard.check()

    def reread(self) -> None:
        try:
            self._file.reread()
        except OSError as error:
            self._guard.note(error)
            raise

    def stat(self) -> FileStat:
        return self._file.stat()

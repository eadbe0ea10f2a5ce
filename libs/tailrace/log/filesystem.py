"""The Filesystem port of the log and the real one. The twin that fails, tears and crashes is log/memory.py.

Paths are strings. Errors are OSError, as the kernel gives them.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tailrace.log.held import Held
from tailrace.log.open_files import OpenFiles
from tailrace.log.page_cache import bring, resident
from tailrace.records.batch import Bytes


class FileStat(NamedTuple):
    """What is known of a file without reading it."""

    size_bytes: int
    modified_ms: int


class File(Protocol):
    """An open file. It stays readable after its name is removed, until the last reference to it goes."""

    held: Held | None  # parts of it besides the page cache; None again when it is written to, or read anew

    @property
    def unsynced(self) -> bool:
        """Whether something was written to it that no sync through it has covered, as far as it was told."""
        ...

    def owe_sync(self) -> None:
        """Somebody else wrote to it, an earlier process perhaps, and nobody knows whether that is on the disk."""
        ...

    def fileno(self) -> int:
        """The descriptor, for sendfile."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to length bytes from position; fewer only at the end of the file."""
        ...

    def pread_cached(self, length: int, position: int) -> Bytes | None:
        """As pread, or None where the disk would have to be waited for."""
        ...

    def cached(self, length: int, position: int) -> bool:
        """Whether these bytes are in the page cache, as far as a look at some of their pages tells."""
        ...

    def resident(self, position: int) -> bool:
        """Whether the page with this byte is in the page cache; unlike `cached` it has the kernel begin no read."""
        ...

    def warm(self, length: int, position: int) -> None:
        """Returns when these bytes are in the page cache, which takes no copy of them."""
        ...

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        """Writes all the buffers one after the other from position."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Returns when the content is on the disk."""
        ...

    def reread(self) -> None:
        """What is read from now on comes from the disk, but for what is still to be written there.

        After a failed write-back the kernel calls pages clean that never reached the disk, until it drops them.
        """
        ...

    def stat(self) -> FileStat: ...


class Filesystem(Protocol):
    """What the log needs of a file system. Segments tell open_files what they keep open."""

    @property
    def open_files(self) -> OpenFiles: ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and writing; FileNotFoundError unless create."""
        ...

    def list(self, path: str) -> list[str]:
        """The names in a directory, in no order."""
        ...

    def make_directory(self, path: str) -> None:
        """Makes it with its parents; no error if it is there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Replaces target at once."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file or an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Returns when creations, renames and removals in it are on the disk."""
        ...

    def lock(self, path: str) -> File:
        """Holds the lock file until the returned file is gone; BlockingIOError if another holds it."""
        ...


class RealFile:
    """A descriptor that closes itself with its last reference, so that slices of a deleted segment stay readable."""

    __slots__ = ("_fd", "_may_wait", "held", "unsynced")

    def __init__(self, path: str, flags: int) -> None:
        self._fd = -1
        self.held: Held | None = None
        self.unsynced = False
        self._may_wait = True  # until the file system says that it knows no reads that do not wait, as tmpfs does
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def owe_sync(self) -> None:
        self.unsynced = True

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        rest = length - len(data)
        while rest and (data := os.pread(self._fd, rest, position + length - rest)):
            parts.append(data)
            rest -= len(data)
        return b"".join(parts)

    def pread_cached(self, length: int, position: int) -> Bytes | None:
        if not self._may_wait:
            return self.pread(length, position)
        data = bytearray(length)
        try:
            count = os.preadv(self._fd, [data], position, _NOWAIT)
        except OSError as error:
            return self.pread(length, position) if self._never_waits(error) else None
        return data if count == length else None

    def cached(self, length: int, position: int) -> bool:
        if not self._may_wait:
            return True
        probe = [bytearray(1)]
        last = position + length - 1
        try:
            for at in (*range(position, last, _PROBE_BYTES), last):
                if not os.preadv(self._fd, probe, at, _NOWAIT):
                    return False
        except OSError as error:
            return self._never_waits(error)
        return True

    def resident(self, position: int) -> bool:
        there = resident(self._fd, position)
        return self.cached(1, position) if there is None else there

    def _never_waits(self, error: OSError) -> bool:
        if isinstance(error, BlockingIOError):
            return False
        if error.errno != errno.EOPNOTSUPP:
            raise error
        self._may_wait = False
        return True

    def warm(self, length: int, position: int) -> None:
        bring(self._fd, position, length)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        self.unsynced, self.held = True, None
        written = os.pwritev(self._fd, buffers[:_IOV_MAX], position)
        if written != sum(map(len, buffers)):
            self._write_rest(b"".join(buffers)[written:], position + written)

    def _write_rest(self, data: bytes, position: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, position)
            position += written
            view = view[written:]

    def truncate(self, size_bytes: int) -> None:
        self.unsynced, self.held = True, None
        os.ftruncate(self._fd, size_bytes)

    def sync(self) -> None:
        self.unsynced = False  # before: what is written meanwhile may not be covered
        try:
            os.fdatasync(self._fd)
        except OSError:
            self.unsynced = True
            raise

    def reread(self) -> None:
        self.held = None
        # What is dirty stays in the page cache, and a later sync writes it or fails.
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def stat(self) -> FileStat:
        status = os.fstat(self._fd)
        return FileStat(status.st_size, status.st_mtime_ns // 1_000_000)


NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})  # what no fsync fails with: nothing is lost
_IOV_MAX = os.sysconf("SC_IOV_MAX")
_NOWAIT = os.RWF_NOWAIT
_PROBE_BYTES = 131_072  # what the kernel reads ahead at least


class RealFilesystem:
    """The operating system's files."""

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        self.open_files = OpenFiles() if open_files is None else open_files

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        while True:
            try:
                return RealFile(path, flags)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self.open_files.shed():
                    raise

    def list(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except IsADirectoryError:
            os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> RealFile:
        file = self.open(path, create=True)
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file


def join(directory: str, name: str) -> str:
    """The path of name in directory."""
    return f"{directory}/{name}"


def read_file(filesystem: Filesystem, path: str) -> bytes:
    """The whole content."""
    file = filesystem.open(path)
    return file.pread(file.stat().size_bytes, 0)


def write_file_atomically(
    filesystem: Filesystem, directory: str, name: str, content: bytes, *, sync: bool = True, sync_name: bool = True
) -> None:
    """Replaces a small file so that a crash leaves the old or the new content (.tmp and rename, as Kafka).

    With sync=False only the process may crash, not the machine. With sync_name=False a crash may leave the old content
    until the caller has synced the directory.
    """
    path = join(directory, name)
    file = filesystem.open(path + ".tmp", create=True)
    file.truncate(0)
    file.pwritev([content], 0)
    if sync:
        file.sync()
    filesystem.rename(path + ".tmp", path)
    if sync and sync_name:
        filesystem.sync_directory(directory)

"""The real file system behind the port, by system calls."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.page_cache import bring, resident
from tailrace.log.filesystem.port import FileStat
from tailrace.private_files import FILE_MODE, FOLDER_MODE
from tailrace.records.batch import Bytes

NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})  # what no fsync fails with: nothing is lost
_IOV_MAX = os.sysconf("SC_IOV_MAX")
_NOWAIT = os.RWF_NOWAIT
_PROBE_BYTES = 131_072  # what the kernel reads ahead at least


class RealFile:
    """A descriptor that closes itself with its last reference, so that slices of a deleted segment stay readable."""

    __slots__ = ("_fd", "_may_wait", "held", "unsynced")

    def __init__(self, path: str, flags: int) -> None:
        self._fd = -1
        self.held: object | None = None
        self.unsynced = False
        self._may_wait = True  # until the file system says that it knows no reads that do not wait, as tmpfs does
        self._fd = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

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
        os.makedirs(path, FOLDER_MODE, exist_ok=True)

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

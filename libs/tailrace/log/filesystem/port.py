"""The Filesystem port of the log, and what is built on it alone. real.py is by system calls, memory.py by dictionaries.

Paths are strings. Errors are OSError, as the kernel gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.records.batch import Bytes


class FileStat(NamedTuple):
    """What is known of a file without reading it."""

    size_bytes: int
    modified_ms: int


class File(Protocol):
    """An open file. It stays readable after its name is removed, until the last reference to it goes."""

    held: object | None  # what a reader keeps of its bytes; None again when it is written to, or read again

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


def join(directory: str, name: str) -> str:
    """The path of name in directory."""
    return f"{directory}/{name}"


def read_file(filesystem: Filesystem, path: str) -> bytes:
    """The whole content."""
    file = filesystem.open(path)
    return file.pread(file.stat().size_bytes, 0)


def read_if_present(filesystem: Filesystem, path: str) -> bytes | None:
    """The whole content, None where there is no such file."""
    try:
        return read_file(filesystem, path)
    except FileNotFoundError:
        return None


def exists(filesystem: Filesystem, path: str) -> bool:
    """Whether there is a file of that name."""
    try:
        filesystem.open(path)
    except FileNotFoundError:
        return False
    return True


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

"""The Filesystem port in memory: it can fail, tear, lose what was not synced, and crash. For tests and simulation."""

from __future__ import annotations

import errno
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.port import FileStat
from tailrace.records.batch import Bytes

# What changes the disk: all of it fails on a file system that went read-only.
CHANGES: Final = ("write", "truncate", "sync", "create", "make_directory", "rename", "remove", "sync_directory")


class Stopped(BaseException):
    """The machine stopped in the middle of a call (stop_after); no `except OSError` of the code under test sees it."""


class _Inode:
    """A file's bytes as processes see them and as the disk has them, and the writes in between."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []  # a write (position, data) or a truncation (size)
        self.errors = 0  # of writing back, and whether a sync has told of the last (the kernel's errseq_t)
        self.reported = True
        self.modified_ms = 0
        self.cold: set[int] = set()  # pages that are on the disk only
        self.open_files: weakref.WeakSet[MemoryFile] = weakref.WeakSet()

    def write(self, position: int, data: bytes, page_bytes: int) -> None:
        _apply(self.cached, (position, data))
        self.cold.difference_update(_pages(position, len(data), page_bytes))
        # The kernel writes back page by page, in an order of its own.
        while data:
            length = page_bytes - position % page_bytes
            self.pending.append((position, data[:length]))
            position, data = position + length, data[length:]

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def lose_dirty_pages(self, *, also_cached: bool) -> None:
        """What the kernel does after it could not write them back; cuts are metadata and stay on their way."""
        self.pending = [change for change in self.pending if isinstance(change, int)]
        if also_cached:
            self.cached = bytearray(self.durable)
            for change in self.pending:
                _apply(self.cached, change)

    def reread(self) -> None:
        """Forgets what only the page cache has; what is still to be written stays."""
        self.cached = bytearray(self.durable)
        for change in self.pending:
            _apply(self.cached, change)

    def crash(self, choice: random.Random) -> None:
        """Of the writes that were not synced some arrive, some do not, some in part, in any combination."""
        for change in self.pending:
            fate = choice.randrange(3)
            if fate == 0:
                _apply(self.durable, change)
            elif fate == 1 and isinstance(change, tuple):
                _apply(self.durable, (change[0], change[1][: choice.randrange(len(change[1]) + 1)]))
        self.pending.clear()
        self.cached = bytearray(self.durable)
        self.reported = True


def _pages(position: int, length: int, page_bytes: int) -> range:
    return range(position // page_bytes, -(-(position + length) // page_bytes))


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        content.extend(bytes(max(0, change - len(content))))
        del content[change:]
        return
    position, data = change
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(data)] = data


class _Directory:
    """Its names as processes see them and as the disk has them; what lies in between is in the journal."""

    def __init__(self) -> None:
        self.cached: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}

    def crash(self, choice: random.Random) -> None:
        self.cached = dict(self.durable)
        for node in self.cached.values():
            node.crash(choice)

    def paths(self, prefix: str) -> Iterator[str]:
        for name, node in self.cached.items():
            if isinstance(node, _Directory):
                yield from node.paths(f"{prefix}/{name}")
            else:
                yield f"{prefix}/{name}"


_Node: TypeAlias = _Inode | _Directory


class _Change(NamedTuple):
    """One entry of the journal: a name that goes, a name that comes, and what bears it."""

    directory: _Directory
    gone: str | None
    new: str | None
    node: _Node


class _Journal:
    """Changes of names reach the disk in their order, as on any journaled file system, but perhaps not the last."""

    def __init__(self) -> None:
        self.changes: list[_Change] = []

    def change(self, directory: _Directory, gone: str | None, new: str | None, node: _Node) -> None:
        _relink(directory.cached, gone, new, node)
        self.changes.append(_Change(directory, gone, new, node))

    def sync(self, directory: _Directory) -> None:
        """Brings everything up to the directory's last change to the disk."""
        last = max((at for at, change in enumerate(self.changes) if change.directory is directory), default=-1)
        self._write(last + 1)

    def sync_all(self) -> None:
        self._write(len(self.changes))

    def crash(self, choice: random.Random) -> None:
        self._write(choice.randrange(len(self.changes) + 1))
        self.changes.clear()

    def _write(self, count: int) -> None:
        for change in self.changes[:count]:
            _relink(change.directory.durable, change.gone, change.new, change.node)
        del self.changes[:count]


def _relink(entries: dict[str, _Node], gone: str | None, new: str | None, node: _Node) -> None:
    if gone is not None:
        entries.pop(gone, None)
    if new is not None:
        entries[new] = node


class MemoryFile:
    """An open file of a MemoryFilesystem."""

    def __init__(self, filesystem: MemoryFilesystem, inode: _Inode) -> None:
        self._filesystem = filesystem
        self._inode = inode
        # An error that no sync has told of yet is told to who opens the file after it, too.
        self._seen_errors = inode.errors if inode.reported else inode.errors - 1
        self.held: object | None = None
        self.unsynced = False
        inode.open_files.add(self)

    def owe_sync(self) -> None:
        self.unsynced = True

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def pread(self, length: int, position: int) -> bytes:
        self._filesystem.maybe_fail("read")
        self._bring(length, position)
        data = bytes(self._inode.cached[position : position + length])
        self._filesystem.reads += 1
        self._filesystem.bytes_read += len(data)
        return data

    def pread_cached(self, length: int, position: int) -> bytes | None:
        return None if self._cold(length, position) else self.pread(length, position)

    def cached(self, length: int, position: int) -> bool:
        self._filesystem.maybe_fail("read")
        return not self._cold(length, position)

    def resident(self, position: int) -> bool:
        return self.cached(1, position)

    def warm(self, length: int, position: int) -> None:
        self._filesystem.maybe_fail("read")
        self._bring(length, position)

    def _cold(self, length: int, position: int) -> set[int]:
        cold = self._inode.cold
        return cold.intersection(_pages(position, length, self._filesystem.page_bytes)) if cold else cold

    def _bring(self, length: int, position: int) -> None:
        if cold := self._cold(length, position):
            self._filesystem.on_disk_read()
            self._inode.cold -= cold

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        data = b"".join(buffers)
        filesystem = self._filesystem
        self.unsynced, self.held = True, None
        self._inode.modified_ms = filesystem.now_ms
        try:
            filesystem.maybe_fail("write")
        except (OSError, Stopped):
            # A full disk takes what it can; who is stopped has written some of it.
            self._inode.write(position, data[: filesystem.torn(len(data))], filesystem.page_bytes)
            raise
        filesystem.writes += 1
        self._inode.write(position, data, filesystem.page_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._filesystem.maybe_fail("truncate")
        self.unsynced, self.held = True, None
        _apply(self._inode.cached, size_bytes)
        self._inode.pending.append(size_bytes)

    def sync(self) -> None:
        try:
            self._filesystem.maybe_fail("sync")
        except OSError:
            # The kernel drops dirty pages it could not write; a second fsync succeeds.
            self._inode.lose_dirty_pages(also_cached=self._filesystem.failed_sync_empties_cache)
            self._inode.errors += 1
            self._report()
            raise
        self._inode.sync()
        if self._seen_errors != self._inode.errors:
            self._report()
            raise OSError(errno.EIO, "what was written could not be written back")
        self.unsynced = False

    def _report(self) -> None:
        self._filesystem.failed_syncs += 1
        self._seen_errors, self._inode.reported = self._inode.errors, True

    def reread(self) -> None:
        self.held = None
        self._filesystem.maybe_fail("read")
        self._inode.reread()

    def stat(self) -> FileStat:
        self._filesystem.maybe_fail("stat")
        return FileStat(len(self._inode.cached), self._inode.modified_ms)


class MemoryFilesystem:
    """Paths are absolute; the root's own entries are always on the disk.

    writes, opens and reads count the calls, bytes_read what those brought, calls all there are; now_ms is the time
    stamped on files.
    """

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        self.open_files = OpenFiles() if open_files is None else open_files
        self.now_ms = 0
        self.writes = self.opens = self.reads = self.bytes_read = 0
        self.calls = 0
        self.page_bytes = 4096  # of what is not synced, a crash keeps or loses each page by itself
        self.torn: Callable[[int], int] = lambda length: length // 2  # what a failed write of so many bytes leaves
        # After a failed sync a process goes on reading what it wrote (ext4), or what the disk has (XFS).
        self.failed_sync_empties_cache = False
        self.failed_syncs = 0  # since the machine started
        self.on_disk_read: Callable[[], None] = lambda: None  # hears of each read that waits for the disk
        self._stop_at = -1
        self._root = _Directory()
        self._journal = _Journal()
        self._failures: dict[str, tuple[int, OSError]] = {}
        self._refusals: dict[str, OSError] = {}
        self._locks: weakref.WeakValueDictionary[str, MemoryFile] = weakref.WeakValueDictionary()

    def fail_next(self, operation: str, error: OSError, after: int = 0) -> None:
        """Lets one coming operation (read, stat, list, open or one of CHANGES) fail."""
        self._failures[operation] = (after, error)

    def fail_all(self, error: OSError, operations: Sequence[str] = CHANGES) -> None:
        """Lets these operations fail until heal(): a full disk, one remounted read-only, one that is gone."""
        self._refusals = dict.fromkeys(operations, error)

    def heal(self) -> None:
        """Takes back what fail_next ordered and has not happened, and what fail_all ordered."""
        self._failures.clear()
        self._refusals.clear()

    def stop_after(self, calls: int) -> None:
        """Raises Stopped in the call after so many more and in every later one, until crash() or kill()."""
        self._stop_at = self.calls + calls

    def maybe_fail(self, operation: str) -> None:
        self.calls += 1
        if 0 <= self._stop_at < self.calls:
            raise Stopped(operation)
        if operation in self._refusals:
            raise self._refusals[operation]
        if operation in self._failures:
            left, error = self._failures.pop(operation)
            if left <= 0:
                raise error
            self._failures[operation] = (left - 1, error)

    def fail_to_write_back(self, path: str) -> None:
        """The kernel could not write what is dirty of a file, some time, and tells who syncs it next."""
        node = self._find(path)
        assert isinstance(node, _Inode)
        node.lose_dirty_pages(also_cached=False)
        node.errors, node.reported = node.errors + 1, False

    def forget_unused(self) -> None:
        """The kernel has written what it could, and needs memory: of what nobody has open it forgets the errors."""
        for path in self.files():
            node = self._find(path)
            assert isinstance(node, _Inode)
            if not node.open_files:
                node.sync()
                node.reported = True

    def crash(self, choice: random.Random) -> None:
        """Power loss: what was not synced is lost, torn or kept, as choice says; open files are of no use after it."""
        self.kill()
        self.failed_syncs = 0
        self._journal.crash(choice)
        self._root.crash(choice)

    def kill(self) -> None:
        """The process died: its locks are gone, everything it wrote is there."""
        self.heal()
        self._stop_at = -1
        self._locks.clear()

    def files(self) -> list[str]:
        """The path of every file."""
        return list(self._root.paths(""))

    def fork(self) -> MemoryFilesystem:
        """Another disk with the same files, all of it synced."""
        other = MemoryFilesystem()
        for path in self.files():
            other.make_directory(path.rpartition("/")[0])
            other.open(path, create=True).pwritev([bytes(self.content(path))], 0)
        other.crash_proof()
        return other

    def drop_caches(self) -> None:
        """The page cache forgets all of it."""
        for path in self.files():
            node = self._find(path)
            assert isinstance(node, _Inode)
            node.cold = set(_pages(0, len(node.cached), self.page_bytes))

    def crash_proof(self) -> None:
        """Brings everything to the disk."""
        self._journal.sync_all()
        for path in self.files():
            self.open(path).sync()

    def decay(self, path: str, bit: int) -> None:
        """Flips a bit of a file, on the disk and in the page cache: what a decaying disk does, and nobody hears of."""
        node = self._find(path)
        assert isinstance(node, _Inode)
        for content in (node.cached, node.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << bit % 8

    def content(self, path: str) -> bytearray:
        """The bytes of a file, to look at or to damage."""
        node = self._find(path)
        assert isinstance(node, _Inode)
        return node.cached

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.maybe_fail("open")
        self.opens += 1
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.maybe_fail("create")
            node = _Inode()
            node.modified_ms = self.now_ms
            self._journal.change(directory, None, name, node)
        if not isinstance(node, _Inode):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return MemoryFile(self, node)

    def list(self, path: str) -> list[str]:
        self.maybe_fail("list")
        return list(self._directory(path).cached)

    def make_directory(self, path: str) -> None:
        directory = self._root
        for name in path.strip("/").split("/"):
            node = directory.cached.get(name)
            if node is None:
                self.maybe_fail("make_directory")
                node = _Directory()
                self._journal.change(directory, None, name, node)
                if directory is self._root:
                    self._journal.sync(directory)  # a mount point
            if not isinstance(node, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        self.maybe_fail("rename")
        directory, name = self._parent(source)
        other, new = self._parent(target)
        assert directory is other, "the log renames within a directory only"
        if name not in directory.cached:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._journal.change(directory, name, new, directory.cached[name])

    def remove(self, path: str) -> None:
        self.maybe_fail("remove")
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, _Directory) and node.cached:
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        self._journal.change(directory, name, None, node)

    def sync_directory(self, path: str) -> None:
        self.maybe_fail("sync_directory")
        self._journal.sync(self._directory(path))

    def lock(self, path: str) -> MemoryFile:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        file = self.open(path, create=True)
        self._locks[path] = file
        return file

    def _find(self, path: str) -> _Node:
        node: _Node = self._root
        for name in path.strip("/").split("/"):
            if not isinstance(node, _Directory) or name not in node.cached:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = node.cached[name]
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path) if path.strip("/") else self._root
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        return self._directory(parent), name

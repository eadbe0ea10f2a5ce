"""The Filesystem port in memory: it can fail, tear, lose what was not synced, and crash. For tests and simulation."""

from __future__ import annotations

import errno
import random
import weakref
from collections.abc import Sequence
from typing import TypeAlias

from tailrace.log.filesystem import FileStat
from tailrace.log.open_files import OpenFiles
from tailrace.records.batch import Bytes


class _Inode:
    """A file's bytes as processes see them and as the disk has them, and the writes in between."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []  # a write (position, data) or a truncation (size)
        self.modified_ms = 0

    def write(self, position: int, data: bytes, page_bytes: int) -> None:
        _apply(self.cached, (position, data))
        # The kernel writes back page by page, in an order of its own.
        while data:
            length = page_bytes - position % page_bytes if page_bytes else len(data)
            self.pending.append((position, data[:length]))
            position, data = position + length, data[length:]

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

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


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        content.extend(bytes(max(0, change - len(content))))
        del content[change:]
        return
    position, data = change
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(data)] = data


class _Directory:
    def __init__(self) -> None:
        self.cached: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.journal: list[tuple[str | None, str | None, _Node]] = []  # (name that goes, name that comes, what)

    def change(self, gone: str | None, new: str | None, node: _Node) -> None:
        _relink(self.cached, (gone, new, node))
        self.journal.append((gone, new, node))

    def sync(self) -> None:
        self.durable = dict(self.cached)
        self.journal.clear()

    def crash(self, choice: random.Random) -> None:
        """Changes of names reach the disk in their order, but perhaps not the last ones."""
        for change in self.journal[: choice.randrange(len(self.journal) + 1)]:
            _relink(self.durable, change)
        self.journal.clear()
        self.cached = dict(self.durable)
        for node in self.cached.values():
            node.crash(choice)


_Node: TypeAlias = _Inode | _Directory


def _relink(entries: dict[str, _Node], change: tuple[str | None, str | None, _Node]) -> None:
    gone, new, node = change
    if gone is not None:
        entries.pop(gone, None)
    if new is not None:
        entries[new] = node


class MemoryFile:
    """An open file of a MemoryFilesystem."""

    def __init__(self, filesystem: MemoryFilesystem, inode: _Inode) -> None:
        self._filesystem = filesystem
        self._inode = inode

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def pread(self, length: int, position: int) -> bytes:
        self._filesystem.maybe_fail("read")
        data = bytes(self._inode.cached[position : position + length])
        self._filesystem.reads += 1
        self._filesystem.bytes_read += len(data)
        return data

    def pread_cached(self, length: int, position: int) -> bytes:
        return self.pread(length, position)

    def cached(self, length: int, position: int) -> bool:
        self._filesystem.maybe_fail("read")
        return True

    def warm(self, length: int, position: int) -> None:
        self._filesystem.maybe_fail("read")

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        data = b"".join(buffers)
        self._inode.modified_ms = self._filesystem.now_ms
        try:
            self._filesystem.maybe_fail("write")
        except OSError:
            # A full disk takes what it can.
            self._inode.write(position, data[: len(data) // 2], self._filesystem.page_bytes)
            raise
        self._filesystem.writes += 1
        self._inode.write(position, data, self._filesystem.page_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._filesystem.maybe_fail("truncate")
        _apply(self._inode.cached, size_bytes)
        self._inode.pending.append(size_bytes)

    def sync(self) -> None:
        try:
            self._filesystem.maybe_fail("sync")
        except OSError:
            self._inode.pending.clear()  # the kernel drops dirty pages it could not write; a second fsync succeeds
            raise
        self._inode.sync()

    def stat(self) -> FileStat:
        return FileStat(len(self._inode.cached), self._inode.modified_ms)


class MemoryFilesystem:
    """Paths are absolute; the root's own entries are always on the disk.

    writes, opens and reads count the calls, bytes_read what those brought; now_ms is the time stamped on files.
    """

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        self.open_files = OpenFiles() if open_files is None else open_files
        self.now_ms = 0
        self.writes = self.opens = self.reads = self.bytes_read = 0
        self.page_bytes = 0  # of what is not synced a crash keeps or loses each page by itself; 0: each write
        self._root = _Directory()
        self._failures: dict[str, tuple[int, OSError]] = {}
        self._locks: weakref.WeakValueDictionary[str, MemoryFile] = weakref.WeakValueDictionary()

    def fail_next(self, operation: str, error: OSError, after: int = 0) -> None:
        """Lets one coming operation (read, write, truncate, sync, open, rename, remove, sync_directory) fail."""
        self._failures[operation] = (after, error)

    def heal(self) -> None:
        """Takes back what fail_next ordered and has not happened."""
        self._failures.clear()

    def maybe_fail(self, operation: str) -> None:
        if operation in self._failures:
            left, error = self._failures.pop(operation)
            if left <= 0:
                raise error
            self._failures[operation] = (left - 1, error)

    def crash(self, choice: random.Random) -> None:
        """Power loss: what was not synced is lost, torn or kept, as choice says; open files are of no use after it."""
        self._failures.clear()
        self._locks.clear()
        self._root.crash(choice)

    def kill(self) -> None:
        """The process died: its locks are gone, everything it wrote is there."""
        self._failures.clear()
        self._locks.clear()

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
            node = _Inode()
            node.modified_ms = self.now_ms
            directory.change(None, name, node)
        if not isinstance(node, _Inode):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return MemoryFile(self, node)

    def list(self, path: str) -> list[str]:
        return list(self._directory(path).cached)

    def make_directory(self, path: str) -> None:
        directory = self._root
        for name in path.strip("/").split("/"):
            node = directory.cached.get(name)
            if node is None:
                node = _Directory()
                directory.change(None, name, node)
                if directory is self._root:
                    directory.sync()  # a mount point
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
        directory.change(name, new, directory.cached[name])

    def remove(self, path: str) -> None:
        self.maybe_fail("remove")
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, _Directory) and node.cached:
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        directory.change(name, None, node)

    def sync_directory(self, path: str) -> None:
        self.maybe_fail("sync_directory")
        self._directory(path).sync()

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

"""One segment: a .log file of batches with its sparse indexes, named by its base offset as Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.port import File, Filesystem, join
from tailrace.log.read import WAIT, Missing, NeedsPages, ReadMode, SegmentScan, Slice
from tailrace.log.segment.index import (
    INDEX_SUFFIX,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    TIME_INDEX_SUFFIX,
    OffsetIndex,
    TimeIndex,
)
from tailrace.log.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX, TransactionIndex
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Bytes

LOG_SUFFIX: Final = ".log"
SUFFIXES: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TRANSACTION_SUMS_SUFFIX,
)
MAX_RELATIVE_OFFSET: Final = 2**31 - 1  # what an index entry can say

EVERYWHERE: Final = 2**63 - 1
_WALK_BYTES: Final = 8 * 1024
_DIGITS: Final = 20


def _nobody(segment: Segment) -> None:
    """Nobody asked to hear of damage."""


def file_name(offset: int, suffix: str) -> str:
    """Kafka's name: the offset in twenty digits."""
    return f"{offset:020d}{suffix}"


def bases_of(names: Iterable[str]) -> list[int]:
    """The base offsets of the segments among the names in a directory, in growing order; other files are nobody's."""
    stems = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isascii() and stem.isdigit())


class Hole(NamedTuple):
    """Bytes [position, end) of a segment that are no sound batch, in place of offsets [first_offset, next_offset)."""

    position: int
    end: int
    first_offset: int
    next_offset: int


class Segment:
    """Opened lazily: a closed segment costs nothing until it is read."""

    __slots__ = (
        "__weakref__",
        "_file",
        "_open_files",
        "aborted",
        "base_offset",
        "begun_ms",
        "bytes_since_index_entry",
        "directory",
        "end_offset",
        "examined",
        "failed_sync",
        "filesystem",
        "first_timestamp",
        "full",
        "holes",
        "index_bytes",
        "index_interval_bytes",
        "indexes",
        "latest_offset",
        "latest_timestamp",
        "name_suffix",
        "on_damage",
        "ragged",
        "scan",
        "size_bytes",
        "valid_from",
        "valid_to",
    )

    def __init__(self, filesystem: Filesystem, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self.filesystem = filesystem
        self.directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.index_bytes = 10 * 1024 * 1024  # segment.index.bytes: when an index has grown to it, the segment is full
        self.full = False
        self.name_suffix = ""  # ".cleaned" while compaction writes it
        self.size_bytes = 0
        self.ragged = False  # behind size_bytes the file may hold what a failed write left
        self.failed_sync: OSError | None = None  # nothing of it can be vouched for before the log is opened again
        self.bytes_since_index_entry = 0
        self.first_timestamp = -1  # of the first batch: segment.ms counts from it,
        self.begun_ms = -1  # or, where it has none, from when it was written
        self.latest_timestamp = -1  # the largest so far, and the last offset of the batch that brought it
        self.latest_offset = base_offset
        # Between these positions batches are known to follow one another: written, or walked, by this process.
        self.valid_from, self.valid_to = 0, EVERYWHERE
        self.end_offset: int | None = None  # where the next segment begins, None for the last
        self.examined = False  # something was wrong, and its holes are all that is
        self.holes: tuple[Hole, ...] = ()
        self.on_damage: Callable[[Segment], None] = _nobody
        self.scan: SegmentScan | None = None  # wanted by a read that does not wait for the disk
        self._open_files = filesystem.open_files
        self._file: File | None = None
        # Of a closed segment loaded when first asked for: search.indexes_of.
        self.indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self.aborted: TransactionIndex | None = None  # most segments have none

    def path(self, suffix: str) -> str:
        return join(self.directory, file_name(self.base_offset, suffix) + self.name_suffix)

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self.filesystem.open(self.path(LOG_SUFFIX))
            self._hold(file)
        return file

    def _hold(self, file: File) -> None:
        self._file = file
        self._open_files.add(self)

    def free(self) -> bool:
        """Forgets the open file (see OpenFiles), unless it owes a sync; the next use opens it by its name."""
        file = self._file
        if file is not None and file.unsynced and self.failed_sync is None:
            return False
        self._file = None
        return True

    def close(self) -> None:
        """Forgets the open file, whatever it owes: nobody wants the segment any more."""
        self._file = self.scan = None

    def sync_file(self) -> None:
        """Returns when the file, if it is open, is on the disk; may raise OSError. In any thread."""
        file = self._file
        if file is not None:
            self.sync(file)

    @property
    def modified_ms(self) -> int:
        return self.file.stat().modified_ms

    @property
    def offset_index(self) -> OffsetIndex:
        """Where it is loaded."""
        assert self.indexes is not None
        return self.indexes[0]

    @property
    def time_index(self) -> TimeIndex:
        """Where it is loaded."""
        assert self.indexes is not None
        return self.indexes[1]

    def open_as(self, path: str, size_bytes: int) -> None:
        """Reads from a file that does not have the segment's name (yet)."""
        self._file = self.filesystem.open(path)
        self.size_bytes = size_bytes

    def read_through(self, file: File | None, open_files: OpenFiles) -> None:
        """Reads from a file that is open already, and counts what it opens itself among open_files."""
        self._file, self._open_files = file, open_files

    def view(self) -> Segment:
        """The same bytes as an object of its own, for another thread; also after this segment's files are gone."""
        view = self._view()
        view.read_through(self.file, self._open_files)
        return view

    def _view(self) -> Segment:
        view = Segment(self.filesystem, self.directory, self.base_offset, self.index_interval_bytes)
        view.size_bytes = self.size_bytes
        view.end_offset, view.examined, view.holes = self.end_offset, self.examined, self.holes
        return view

    def snapshot(self, open_files: OpenFiles) -> Segment:
        """As view, but nothing is opened for it, and with the indexes as far as they are in memory.

        Those it shares: a closed segment's stay as they are, and the last one's only grow, unless the log is cut.
        """
        view = self._view()
        view.read_through(self._file, open_files)
        view.indexes = self.indexes
        view.copy_marks(self)
        return view

    def copy_marks(self, other: Segment) -> None:
        """Its timestamps, and how far its index is, are those of the other."""
        self.first_timestamp = other.first_timestamp
        self.latest_timestamp, self.latest_offset = other.latest_timestamp, other.latest_offset
        self.bytes_since_index_entry = other.bytes_since_index_entry

    def create(self) -> None:
        """Makes an empty segment, whatever was there under its name."""
        file = self.filesystem.open(self.path(LOG_SUFFIX), create=True)
        file.truncate(0)
        self._hold(file)
        self.size_bytes = 0
        self.aborted = None
        self.examined, self.holes = False, ()
        self.scan = None
        self.forget_indexes()

    def forget_indexes(self) -> None:
        """Begins again with empty indexes, to be rebuilt or filled by appends."""
        self.indexes = (OffsetIndex(self.base_offset), TimeIndex(self.base_offset))
        self.bytes_since_index_entry = 0
        self.first_timestamp = self.latest_timestamp = -1
        self.latest_offset = self.base_offset

    def append(self, buffers: Sequence[Bytes], headers: Sequence[BatchHeader]) -> None:
        """Writes the batches with one call; OSError leaves the segment as it was."""
        position = self.size_bytes
        if self.ragged:
            self._trim()
        file = self._file or self.file
        try:
            file.pwritev(buffers, position)
        except OSError:
            self.ragged = True
            with suppress(OSError):  # tried again before the next append, and before the segment is closed
                self._trim()
            raise
        for header in headers:
            self.note(header, position)
            position += header[1] + LOG_OVERHEAD
        self.size_bytes = position

    def note(self, header: BatchHeader, position: int) -> None:
        """Takes the batch at position into the indexes (Kafka: an entry after more than index.interval.bytes)."""
        last_offset = header[0] + header[6]
        if header[8] > self.latest_timestamp:
            self.latest_timestamp = header[8]
            self.latest_offset = last_offset
        if position == 0:
            self.first_timestamp = header[8]
        if self.bytes_since_index_entry > self.index_interval_bytes:
            assert self.indexes is not None
            offset_index, time_index = self.indexes
            offset_index.append(last_offset, position)
            time_index.maybe_append(self.latest_timestamp, self.latest_offset)
            self.bytes_since_index_entry = 0
            self.measure_indexes()
        self.bytes_since_index_entry += header[1] + LOG_OVERHEAD

    def measure_indexes(self) -> None:
        """Knows whether an index is full by segment.index.bytes as it is now."""
        assert self.indexes is not None
        offset_index, time_index = self.indexes
        # The time index keeps room for one more entry, which seal writes.
        most, most_times = self.index_bytes // OFFSET_ENTRY_SIZE, self.index_bytes // TIME_ENTRY_SIZE - 1
        self.full = len(offset_index) >= most or len(time_index) >= most_times

    def seal(self) -> None:
        """Notes the largest timestamp in the time index: nothing will be appended any more. May raise OSError."""
        if self.ragged or self.failed_sync is not None:
            self._trim()  # from now on the file's size says where the segment ends
        self.note_latest()

    def note_latest(self) -> None:
        """Puts the largest timestamp into the time index."""
        if self.latest_timestamp >= 0:
            self.time_index.maybe_append(self.latest_timestamp, self.latest_offset)

    def _trim(self) -> None:
        """Cuts off what a failed write left."""
        if self.failed_sync is not None:
            raise self.failed_sync  # the next one would say yes, and earlier appends may be gone
        self.cut(self.size_bytes)
        self.ragged = False

    def save_indexes(self) -> tuple[File, ...]:
        """Writes what the index files lack; unsynced."""
        index = self.offset_index.save(self.filesystem, self.path(INDEX_SUFFIX))
        files = (index, self.time_index.save(self.filesystem, self.path(TIME_INDEX_SUFFIX)))
        if self.aborted is None:
            return files
        return (*files, *self.aborted.save(self.filesystem, self.path(TRANSACTION_INDEX_SUFFIX)))

    def is_before(self, timestamp: int) -> bool:
        """Whether all its batches are known to be earlier; that costs nothing."""
        return self.indexes is not None and self.latest_timestamp < timestamp

    def heads(self, at: int, first: int, mode: ReadMode, limit: int | None = None) -> Bytes:
        """The bytes from `at` on that are looked through for heads of batches, the last of which begins at `limit`.

        Where they are missing all from `first` is.
        """
        length = min(_WALK_BYTES, self.size_bytes - at)
        if limit is not None:
            length = min(length, max(0, limit - at) + HEADER_SIZE)
        seen = mode.look(self.file, length, at)
        if seen is None:
            raise self.missing(first, at + length)
        return seen

    def read_to(self, position: int, limit: int, mode: ReadMode) -> Bytes:
        """The bytes from position to limit, and the head of the batch that may begin there."""
        return self._read(min(limit + HEADER_SIZE, self.size_bytes) - position, position, mode)

    def read_batch(self, position: int, header: BatchHeader, mode: ReadMode = WAIT) -> Bytes:
        """The whole batch that header describes."""
        return self._read(header.size_bytes, position, mode)

    def _read(self, length: int, position: int, mode: ReadMode) -> Bytes:
        data = mode.read(self.file, length, position)
        if data is None:
            raise self.missing(position, position + length)
        return data

    def missing(self, position: int, end: int) -> Missing:
        """These bytes are, for a read that does not wait."""
        return Missing(NeedsPages(Slice(self.file, position, end - position), self.end_offset is not None))

    def hole_at(self, position: int) -> Hole | None:
        """The hole that the position lies in."""
        return next((hole for hole in self.holes if hole.position <= position < hole.end), None)

    def hole_behind(self, position: int) -> Hole | None:
        """The first hole that ends behind position."""
        return next((hole for hole in self.holes if hole.end > position), None)

    def cut(self, position: int) -> None:
        """Shortens the file, at once on the disk: a crash must not bring back offsets that are given out again."""
        self.file.truncate(position)
        self.sync(self.file)

    def sync(self, *files: File) -> None:
        """Returns when what was written to these files of the segment is on the disk."""
        try:
            for file in files:
                file.sync()
        except OSError as failed:
            self.failed_sync = failed  # the kernel has forgotten what it could not write, also of earlier appends
            raise

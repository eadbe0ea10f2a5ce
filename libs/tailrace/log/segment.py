"""One segment: a .log file of batches with its sparse indexes, named by its base offset as Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from struct import Struct
from typing import Final, NoReturn

from tailrace.log.damage import Hole, fits, intact, walk
from tailrace.log.elsewhere import Walk
from tailrace.log.filesystem import File, Filesystem, join
from tailrace.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, OffsetIndex, TimeIndex
from tailrace.log.open_files import OpenFiles
from tailrace.log.reading import NotCached, Reader, Slice
from tailrace.log.transaction_index import TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX, TransactionIndex
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, Bytes, corrupt, read_header

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SUFFIXES: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TRANSACTION_SUMS_SUFFIX,
)
MAX_RELATIVE_OFFSET: Final = 2**31 - 1  # what an index entry can say

_PLACE: Final = Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_NOTHING: Bytes = b""
_WALK_BYTES: Final = 8 * 1024
_SCAN_BYTES: Final = 1024 * 1024


EVERYWHERE: Final = 2**63 - 1


def _nobody(segment: Segment) -> None:
    """Nobody asked to hear of damage."""


def file_name(offset: int, suffix: str) -> str:
    """Kafka's name: the offset in twenty digits."""
    return f"{offset:020d}{suffix}"


class Segment:
    """Opened lazily: a closed segment costs nothing until it is read."""

    __slots__ = (
        "__weakref__",
        "_file",
        "_indexes",
        "_open_files",
        "_walk",
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
        "latest_offset",
        "latest_timestamp",
        "name_suffix",
        "on_damage",
        "ragged",
        "reader",
        "size_bytes",
        "sound_from",
        "sound_to",
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
        self.failed_sync: OSError | None = None  # nothing of it can be vouched for before the log is opened anew
        self.bytes_since_index_entry = 0
        self.first_timestamp = -1  # of the first batch: segment.ms counts from it,
        self.begun_ms = -1  # or, where it has none, from when it was written
        self.latest_timestamp = -1  # the largest so far, and the last offset of the batch that brought it
        self.latest_offset = base_offset
        # Between these positions batches are known to follow one another: written, or walked, by this process.
        self.sound_from, self.sound_to = 0, EVERYWHERE
        self.end_offset: int | None = None  # where the next segment begins, None for the last
        self.examined = False  # something was wrong, and its holes are all that is
        self.holes: tuple[Hole, ...] = ()
        self.on_damage: Callable[[Segment], None] = _nobody
        self.reader = Reader()  # the log's own, once it has the segment
        self._walk: Walk | None = None  # wanted by who does not wait for the disk
        self._open_files = filesystem.open_files
        self._file: File | None = None
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
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

    def let_go(self) -> None:
        """Forgets the open file (see OpenFiles); the next use opens it by its name."""
        self._file = None

    @property
    def modified_ms(self) -> int:
        return self.file.stat().modified_ms

    @property
    def offset_index(self) -> OffsetIndex:
        return (self._indexes or self.load_indexes())[0]

    @property
    def time_index(self) -> TimeIndex:
        return (self._indexes or self.load_indexes())[1]

    def open_as(self, path: str, size_bytes: int) -> None:
        """Reads from a file that does not have the segment's name (yet)."""
        self._file = self.filesystem.open(path)
        self.size_bytes = size_bytes

    def view(self) -> Segment:
        """The same bytes as an object of its own, for another thread; also after this segment's files are gone."""
        twin = self._view()
        twin._file = self.file
        return twin

    def _view(self) -> Segment:
        twin = Segment(self.filesystem, self.directory, self.base_offset, self.index_interval_bytes)
        twin.size_bytes = self.size_bytes
        twin.end_offset, twin.examined, twin.holes = self.end_offset, self.examined, self.holes
        return twin

    def snapshot(self, open_files: OpenFiles) -> Segment:
        """As view, but nothing is opened for it, and with the indexes as far as they are in memory.

        Those it shares: a closed segment's stay as they are, and the last one's only grow, unless the log is cut.
        """
        twin = self._view()
        twin._file, twin._open_files, twin._indexes = self._file, open_files, self._indexes
        twin._copy_marks(self)
        return twin

    def _copy_marks(self, other: Segment) -> None:
        self.first_timestamp = other.first_timestamp
        self.latest_timestamp, self.latest_offset = other.latest_timestamp, other.latest_offset
        self.bytes_since_index_entry = other.bytes_since_index_entry

    def take_up(self, view: Segment, *, damaged: bool) -> bool:
        """Knows what a snapshot of it has come to know, and tells of damage; the segment was not cut since.

        False where that is not all there is to know: a hole went to the end, and that is elsewhere now.
        """
        examined = view.examined and not self.examined
        if view._indexes is None or not (examined or self._indexes is None):
            return True
        size, same_end = view.size_bytes, (view.size_bytes, view.end_offset) == (self.size_bytes, self.end_offset)
        if examined and view.holes and view.holes[-1].end == size and not same_end:
            return False
        self._indexes = view._indexes
        self._copy_marks(view)
        if examined:
            self.examined, self.holes = True, view.holes
        waits, self.reader.waits = self.reader.waits, True
        try:
            for position, header in self.raw_headers(size):  # appended since, so in the page cache
                self.note(header, position)
            if self.end_offset is not None:
                self.note_latest()
        finally:
            self.reader.waits = waits
        if damaged:
            self.on_damage(self)
        return True

    def create(self) -> None:
        """Makes an empty segment, whatever was there under its name."""
        file = self.filesystem.open(self.path(LOG_SUFFIX), create=True)
        file.truncate(0)
        self._hold(file)
        self.size_bytes = 0
        self.aborted = None
        self.examined, self.holes = False, ()
        self._walk = None
        self.forget_indexes()

    def forget_indexes(self) -> None:
        """Begins anew with empty indexes, to be rebuilt or filled by appends."""
        self._indexes = (OffsetIndex(self.base_offset), TimeIndex(self.base_offset))
        self.bytes_since_index_entry = 0
        self.first_timestamp = self.latest_timestamp = -1
        self.latest_offset = self.base_offset

    def load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """The indexes of a closed segment from their files; rebuilt from the batches if they are missing or damaged."""
        if self._walked() and self._indexes is not None:
            return self._indexes
        if not self.reader.waits and not self._indexes_are_cached():
            self._have_walked(Walk(self))
        try:
            return self._load_indexes()
        except (NotCached, OSError):
            self._indexes = None  # nothing has vouched for them yet
            raise

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        self.forget_indexes()
        assert self._indexes is not None
        offset_index, time_index = self._indexes
        intact = offset_index.load(self.filesystem, self.path(INDEX_SUFFIX), self.size_bytes)
        intact = time_index.load(self.filesystem, self.path(TIME_INDEX_SUFFIX)) and intact
        if not intact or (self.size_bytes and not len(time_index)):
            if not self.reader.waits:
                self._have_walked(Walk(self))
            self.forget_indexes()
            for position, header in self.headers(0):
                self.note(header, position)
            self.seal()
            return self._indexes
        self.latest_timestamp, self.latest_offset = time_index.last()
        if not self._brought(*time_index.last()):
            self.examine()
        assert self._indexes is not None
        return self._indexes

    def offset_before(self, timestamp: int) -> int:
        """An offset before which no batch is as late as timestamp."""
        latest, offset = self.time_index.entry(timestamp)
        if self.examined or self._brought(latest, offset):
            return offset
        self.examine()
        return self.time_index.entry(timestamp)[1]

    def _brought(self, timestamp: int, offset: int) -> bool:
        """Whether a time index entry is true: the batch that holds the offset is the one of that timestamp."""
        if timestamp < 0:
            return True
        header = next(self.raw_headers(self.position_of(offset)), (0, None))[1]
        return header is not None and header[8] == timestamp and header.base_offset <= offset <= header.last_offset

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
            offset_index, time_index = self._indexes or self.load_indexes()
            offset_index.append(last_offset, position)
            time_index.maybe_append(self.latest_timestamp, self.latest_offset)
            self.bytes_since_index_entry = 0
            # The time index keeps room for one more entry, which seal writes.
            most, most_times = self.index_bytes // OFFSET_ENTRY_SIZE, self.index_bytes // TIME_ENTRY_SIZE - 1
            self.full = len(offset_index) >= most or len(time_index) >= most_times
        self.bytes_since_index_entry += header[1] + LOG_OVERHEAD

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

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of its batches, -1 if there is none."""
        if self._indexes is None:
            self.load_indexes()
        return self.latest_timestamp

    @property
    def largest_timestamp_ms(self) -> int:
        """How young it is: of batches without a timestamp the file's time tells, as in Kafka. May raise OSError."""
        newest = self.max_timestamp
        return newest if newest >= 0 else self.modified_ms

    def is_before(self, timestamp: int) -> bool:
        """Whether all its batches are known to be earlier; that costs nothing."""
        return self._indexes is not None and self.latest_timestamp < timestamp

    def raw_headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """As headers, believing each batch's length and offset: to the first that cannot be one."""
        size, chunk, start = self.size_bytes, _NOTHING, position
        while position + HEADER_SIZE <= size:
            if position - start + HEADER_SIZE > len(chunk):
                start = position
                chunk = self._heads(position, position)
                if len(chunk) < HEADER_SIZE:
                    return
            header = read_header(chunk, position - start)
            if not fits(header, position, size):
                return
            yield position, header
            position += header[1] + LOG_OVERHEAD

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every sound batch from the one at position on, without reading the records.

        Looks one batch ahead: where that does not follow, the segment is examined before either is believed.
        """
        size = self.size_bytes
        while position < size:
            if self.holes and (hole := self.hole_at(position)):
                position = hole.end
                continue
            last: BatchHeader | None = None
            for at, header in self.raw_headers(position):
                if last is not None:
                    if header[0] < last.next_offset:
                        break
                    yield position, last
                    position = at
                last = header
                if self.holes and self.hole_at(at):
                    break
            else:
                if last is not None and self.ends_with(last, position, size):
                    yield position, last
                    return
            if not self.examined:
                self.examine()
            elif last is None:
                return
            elif not (self.holes and self.hole_at(position)):
                yield position, last
                position += last.size_bytes

    def ends_with(self, last: BatchHeader, position: int, size_bytes: int) -> bool:
        """Whether the batch at position can be the last of a segment of that size."""
        return position + last.size_bytes == size_bytes and (
            self.end_offset is None or last.next_offset <= self.end_offset
        )

    def hole_at(self, position: int) -> Hole | None:
        """The hole that the position lies in."""
        return next((hole for hole in self.holes if hole.position <= position < hole.end), None)

    def hole_behind(self, position: int) -> Hole | None:
        """The first hole that ends behind position."""
        return next((hole for hole in self.holes if hole.end > position), None)

    def examine(self, *, suspected: bool = True, anchor: int | None = None, doubted: int | None = None) -> None:
        """Finds all that is wrong by walking the whole segment, and makes its indexes anew from what is sound.

        anchor is where the last segment should end; suspected=False: nothing is wrong but what this finds, and the
        batch at `doubted` if its CRC is. A reader who does not wait gets NotCached, for another thread has to do it.
        """
        if self._walked() and self.examined:
            return
        if not self.reader.waits:
            view_examine = partial(Segment.examine, suspected=suspected, doubted=doubted)
            self._have_walked(Walk(self, view_examine))
        if doubted is not None:
            suspected = intact(self, doubted) is None
        known = self._indexes is not None
        self.forget_indexes()
        holes: list[Hole] = []
        for found in walk(self, 0, self.base_offset, self.end_offset, anchor):
            if isinstance(found, Hole):
                holes.append(found)
            else:
                self.note(found[1], found[0])
        self.examined, self.holes = True, tuple(holes)
        if not known:
            self._indexes = None
        elif self.end_offset is not None:
            self.note_latest()
        if suspected or holes:
            self.on_damage(self)

    def _walked(self) -> bool:
        """Whether another thread has just walked it; it knows what that found."""
        walk = self._walk
        if walk is None or not walk.done:
            return False
        self._walk = None
        return walk.twin.take_up()

    def _have_walked(self, walk: Walk) -> NoReturn:
        """By another thread, unless one does so already."""
        if self._walk is None or self._walk.failed:
            self._walk = walk
        raise NotCached(self._walk)

    def _heads(self, at: int, first: int, limit: int | None = None) -> Bytes:
        """The bytes from `at` on that are looked through for heads of batches, the last of which begins at `limit`.

        NotCached asks for all from `first`.
        """
        length = min(_WALK_BYTES, self.size_bytes - at)
        if limit is not None:
            length = min(length, max(0, limit - at) + HEADER_SIZE)
        return self._pread(length, at, first)

    def _pread(self, length: int, position: int, first: int) -> Bytes:
        if self.reader.waits:
            return self.file.pread(length, position)
        data = None if self.reader.stopped else self.file.pread_cached(length, position)
        if data is None:
            raise NotCached(Slice(self.file, first, position + length - first))
        return data

    def _indexes_are_cached(self) -> bool:
        """Whether loading them from their files need not wait for the disk."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            with suppress(FileNotFoundError):
                file = self.filesystem.open(self.path(suffix))
                size = file.stat().size_bytes
                if size and not file.cached(size, 0):
                    return False
        return True

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that holds offset or a later one; size_bytes if there is none.

        The beginning of a hole where what held the offset is damaged.
        """
        last_offset, position = self.offset_index.entry(offset)
        size, chunk, start, next_offset = self.size_bytes, _NOTHING, position, self.base_offset
        if last_offset >= 0:
            next_offset = -1
        if last_offset >= 0 and not self.examined:
            chunk = self._heads(position, position)
            if not self._begins(chunk, position, last_offset):
                return self.position_of(offset)
        while position + HEADER_SIZE <= size:
            if self.holes and (hole := self.hole_at(position)):
                if offset < hole.next_offset:
                    return hole.position
                position, next_offset = hole.end, hole.next_offset
                continue
            if not start <= position <= start + len(chunk) - HEADER_SIZE:
                start = position
                chunk = self._heads(position, position)
            base_offset, length, magic, delta = _PLACE.unpack_from(chunk, position - start)
            end = position + length + LOG_OVERHEAD
            if base_offset < next_offset or magic != MAGIC or delta < 0 or not position + HEADER_SIZE <= end <= size:
                return self._examined_position_of(offset, position)
            if base_offset + delta >= offset:
                if base_offset > offset and not self.examined and next_offset >= 0 and not self._follows(position):
                    return self._examined_position_of(offset, position)
                return position
            next_offset = base_offset + delta + 1
            position = end
        if self.end_offset is not None and next_offset <= offset < self.end_offset and not self.examined and size:
            return self._examined_position_of(offset, size)
        return size

    def _examined_position_of(self, offset: int, position: int) -> int:
        if self.examined:
            raise corrupt(f"no record batch at {position} of {self.path(LOG_SUFFIX)}")
        self.examine()
        return self.position_of(offset)

    def _begins(self, chunk: Bytes, position: int, last_offset: int) -> bool:
        """Whether an index entry is true: a batch that ends with last_offset begins there. If not, all is examined.

        Kafka's followers index several batches that they appended at once by the first's place and the last's end.
        """
        header = read_header(chunk) if len(chunk) >= HEADER_SIZE else None
        if header is not None and header[0] + header[6] == last_offset and fits(header, position, self.size_bytes):
            return True
        several = header is not None and self.base_offset <= header.last_offset < last_offset
        self.examine(suspected=not several, doubted=position if several else None)
        return False

    def _follows(self, position: int) -> bool:
        """Whether the batch at position ends before the next begins."""
        found = list(islice(self.raw_headers(position), 2))
        if len(found) == 2:
            return found[0][1].next_offset <= found[1][1].base_offset
        return len(found) == 1 and self.ends_with(found[0][1], position, self.size_bytes)

    def end_within(self, position: int, limit: int) -> tuple[int, int]:
        """(end, next offset) of the longest run of whole batches from position that ends at or below limit.

        The end is position itself, with offset -1, if the first batch is too long.
        """
        first = position
        last_offset, at = self.offset_index.entry_at(limit)
        hole = self.hole_behind(position) if self.holes else None
        if hole is not None:
            limit, at = min(limit, hole.position), position
        size, chunk, start, next_offset = self.size_bytes, _NOTHING, at, -1
        if at <= position:
            start = at = position
        elif not self.examined:
            chunk = self._heads(at, first, limit)
            if not self._begins(chunk, at, last_offset):
                return self.end_within(position, limit)
        while at + HEADER_SIZE <= size:
            if at - start + HEADER_SIZE > len(chunk):
                start = at
                chunk = self._heads(at, first, limit)
            base_offset, length, magic, delta = _PLACE.unpack_from(chunk, at - start)
            end = at + length + LOG_OVERHEAD
            if base_offset < next_offset or magic != MAGIC or delta < 0 or not at + HEADER_SIZE <= end <= size:
                if self.examined:
                    break
                self.examine()
                return self.end_within(position, limit)
            if end > limit:
                return at, base_offset if at > position else -1
            at, next_offset = end, base_offset + delta + 1
        return at, next_offset

    def read_batch(self, position: int, header: BatchHeader) -> Bytes:
        """The whole batch that header describes."""
        return self._pread(header.size_bytes, position, position)

    def truncate(self, position: int) -> None:
        """Cuts the segment at a batch's beginning and takes the rest's marks back."""
        offset_index = self.offset_index
        self.cut(position)
        self.size_bytes = position
        self.holes = tuple(hole for hole in self.holes if hole.end <= position)
        self._walk = None
        self.end_offset = None
        self.full = False
        offset_index.truncate(position)
        next_offset = self.resume()
        if self.aborted is not None:
            self.aborted.truncate(next_offset)

    def cut(self, position: int) -> None:
        """Shortens the file, at once on the disk: a crash must not bring back offsets that are given out anew."""
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

    def resume(self) -> int:
        """Makes the segment ready for appends, from true index entries and the batches after them; its next offset."""
        offset_index, time_index = self._indexes or self.load_indexes()
        start = 0
        if len(offset_index):
            last_offset, start = offset_index.last()
            if not self.examined and not self._begins(self.file.pread(HEADER_SIZE, start), start, last_offset):
                return self.resume()
        # The indexed batch itself is noted again by the walk below.
        offset_index.truncate(start)
        first = next(self.headers(0), None)
        self.first_timestamp = first[1].max_timestamp if first else -1
        start_offset = next((header.base_offset for _, header in self.headers(start)), self.base_offset)
        time_index.truncate(start_offset)
        self.latest_timestamp, self.latest_offset = time_index.last()
        self.bytes_since_index_entry = self.index_interval_bytes + 1 if start else 0
        next_offset = self.base_offset
        for position, header in self.headers(start):
            self.note(header, position)
            next_offset = header.next_offset
        if self.holes and self.holes[-1].end == self.size_bytes:
            next_offset = max(next_offset, self.holes[-1].next_offset)
        return next_offset

    def scan(self, position: int) -> Iterator[tuple[int, memoryview]]:
        """(position, whole batch) from position on, read in large pieces; a cut last batch comes as no bytes."""
        size, chunk, start = self.size_bytes, memoryview(b""), position
        while position < size:
            if size - position < HEADER_SIZE:
                yield position, chunk[:0]
                return
            if position - start + HEADER_SIZE > len(chunk):
                start = position
                chunk = memoryview(self.file.pread(min(_SCAN_BYTES, size - position), position))
            length = _PLACE.unpack_from(chunk, position - start)[1] + LOG_OVERHEAD
            if length < HEADER_SIZE or position + length > size:
                yield position, chunk[:0]
                return
            if position - start + length > len(chunk):
                start = position
                chunk = memoryview(self.file.pread(min(max(_SCAN_BYTES, length), size - position), position))
            yield position, chunk[position - start : position - start + length]
            position += length

"""Compaction of closed segments: the latest value of every key stays, offsets are kept, a crash does no harm.

A pass reads the dirty part into a map from key to latest offset, then copies all closed segments up to there without
what the map has superseded. Copies are .cleaned files; the log swaps them in group by group (swap.py). A pass is
a Job and its Outcome, so that it can run in another process (the broker's cleaner_process.py) as well as here.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from struct import error as StructError
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.compaction.cleanable import grouped
from tailrace.log.compaction.retained import BYTES_PER_KEY, LastRecord, OffsetMap, Retention
from tailrace.log.compaction.swap import discard
from tailrace.log.compaction.transactions import Markers, TransactionScan, retained_index
from tailrace.log.filesystem.names import CLEANED_SUFFIX
from tailrace.log.filesystem.port import Filesystem, join
from tailrace.log.segment.batches import scan
from tailrace.log.segment.search import load_indexes, position_of
from tailrace.log.segment.segment import LOG_SUFFIX, Segment
from tailrace.log.segment.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    TransactionIndex,
    read_index,
    sums_of,
    sums_path,
)
from tailrace.log.segment.transactions import DamagedIndex, marker_type
from tailrace.log.segment.valid import headers
from tailrace.records.batch import TRANSACTIONAL, BatchHeader, Bytes, corrupt, read_header, validate, without_records
from tailrace.records.entries import entries, plain_records

_STEP_BYTES: Final = 256 * 1024
_DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024
_LOAD_FACTOR: Final = 0.9


class RewriteLimits(NamedTuple):
    """What bounds a pass: keys in the map, bytes between two steps, bytes read and written per second (0: any).

    spare_bytes are left free on the disk: a copy that filled it would cost the log directory.
    """

    max_keys: int = int(_DEDUPE_BUFFER_BYTES * _LOAD_FACTOR) // BYTES_PER_KEY
    step_bytes: int = _STEP_BYTES
    bytes_per_second: float = 0.0
    spare_bytes: int = 0

    @classmethod
    def of(
        cls,
        dedupe_bytes: int,
        load_factor: float,
        buffer_bytes: int,
        bytes_per_second: float,
        spare_bytes: int = 0,
    ) -> RewriteLimits:
        """From log.cleaner.dedupe.buffer.size, .io.buffer.load.factor, .io.buffer.size, .io.max.bytes.per.second."""
        max_keys = max(1, int(dedupe_bytes * load_factor) // BYTES_PER_KEY)
        rate = bytes_per_second if bytes_per_second < 2**63 else 0.0
        return cls(max_keys, max(4096, buffer_bytes), rate, spare_bytes)


class RewriteJob(NamedTuple):
    """All that a pass needs to know. segments are (base offset, size) pairs, oldest first."""

    directory: str
    segments: tuple[tuple[int, int], ...]
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    last_records: Mapping[int, LastRecord]
    limits: RewriteLimits = RewriteLimits()


class Cleaned(NamedTuple):
    """One .cleaned segment: its base offset and size, and the (base offset, size) of those it replaces."""

    base_offset: int
    size_bytes: int
    sources: tuple[tuple[int, int], ...]


class Outcome(NamedTuple):
    """What a pass did: everything below cleaned_offset is covered once the groups are swapped in."""

    cleaned_offset: int
    groups: tuple[Cleaned, ...]
    bytes_read: int
    bytes_written: int
    map_is_full: bool


def any_room() -> int:
    """Usable bytes of a disk that nobody asked about."""
    return 2**63 - 1


class Pass:
    """One pass over files. It writes .cleaned files and touches nothing else, so it may go on anywhere.

    usable_bytes says what is free on their disk.
    """

    def __init__(
        self,
        filesystem: Filesystem,
        job: RewriteJob,
        segments: tuple[Segment, ...],
        usable_bytes: Callable[[], int] = any_room,
    ) -> None:
        self._usable_bytes = usable_bytes
        self._is_full = False  # the disk, but for what is spared
        self._filesystem = filesystem
        self._job = job
        self._segments = segments
        self._latest = OffsetMap(job.limits.max_keys)
        self._transactions: TransactionScan | None = None
        self._markers = Markers()
        self._groups: list[Cleaned] = []
        self._end_offset = job.end_offset  # of what is mapped: lower where a transaction is open or the map full
        self._bytes_read = self._bytes_written = 0
        self._map_is_full = False

    @classmethod
    def open(cls, filesystem: Filesystem, job: RewriteJob, usable_bytes: Callable[[], int] = any_room) -> Pass:
        """The pass over the files that the job names; its steps raise FileNotFoundError where retention was faster."""
        segments = []
        for base_offset, size_bytes in job.segments:
            segment = Segment(filesystem, job.directory, base_offset, job.index_interval_bytes)
            segment.size_bytes = size_bytes
            segments.append(segment)
        return cls(filesystem, job, tuple(segments), usable_bytes)

    def outcome(self) -> Outcome:
        """After the last step."""
        return Outcome(self._end_offset, tuple(self._groups), self._bytes_read, self._bytes_written, self._map_is_full)

    def steps(self) -> Iterator[int]:
        """Does the pass; yields the bytes read and written since the last step. ApiError if a batch is damaged.

        Where the disk has no room for all copies, it ends with those it could make: once they have taken their sources'
        place there is more. Without any: OSError ENOSPC. What is left of a failed pass would take room, so that goes.
        """
        self._sweep()
        try:
            self._is_full = self._usable_bytes() < self._job.limits.spare_bytes
            if not self._is_full:
                yield from self._clean()
            if self._is_full and not self._groups:
                spare_bytes = self._job.limits.spare_bytes
                raise OSError(errno.ENOSPC, f"a cleaned copy would leave fewer than {spare_bytes:,} bytes free")
        except (ApiError, OSError):
            with suppress(OSError):
                self._sweep()
            raise

    def _clean(self) -> Iterator[int]:
        yield from self._map_keys()
        sources = [segment for segment in self._segments if segment.base_offset < self._end_offset]
        if self._end_offset <= self._job.first_dirty_offset or not sources:
            return  # the first dirty transaction has not ended
        retention = Retention(
            self._latest,
            self._end_offset,
            self._job.end_offset,
            self._job.now_ms,
            self._job.delete_retention_ms,
            self._job.last_records,
            self._transactions or TransactionScan(),
            self._markers,
        )
        for group in grouped(sources, self._job.segment_bytes, self._job.end_offset):
            yield from self._copy(group, retention)
            if self._is_full:
                self._end_offset = self._job.first_dirty_offset  # the next pass begins where this one did
                self._keep_what_frees_room()
                return

    def _keep_what_frees_room(self) -> None:
        """A copy as large as its source would be made again by every pass, none of which gets any further."""
        kept = []
        for group in self._groups:
            if len(group.sources) > 1 or group.size_bytes < group.sources[0][1]:
                kept.append(group)
            else:
                discard(self._output(group.base_offset))
        self._groups = kept

    def _output(self, base_offset: int) -> Segment:
        job = self._job
        output = Segment(self._filesystem, job.directory, base_offset, job.index_interval_bytes)
        output.name_suffix = CLEANED_SUFFIX
        return output

    def _sweep(self) -> None:
        """Removes what an earlier pass left that was not finished."""
        for name in self._filesystem.list(self._job.directory):
            if name.endswith(CLEANED_SUFFIX):
                self._filesystem.remove(join(self._job.directory, name))

    def _map_keys(self) -> Iterator[int]:
        job, done = self._job, 0
        dirty = [s for s, end in zip(self._segments, self._ends(), strict=True) if end > job.first_dirty_offset]
        for number, segment in enumerate(dirty):
            if segment.base_offset >= self._end_offset:
                break
            # What supersedes a value must outlive a power loss before the value may go.
            segment.file.sync()
            start = position_of(segment, job.first_dirty_offset)
            for position, header, data in _batches(segment, start):
                if header.attributes & TRANSACTIONAL and self._transactions is None:
                    done += self._scan_transactions(dirty[number:], position)
                if header.base_offset >= self._end_offset:
                    break
                if not self._latest.takes(header.record_count):
                    self._end_offset, self._map_is_full = header.base_offset, True
                    break
                self._map_batch(header, data)
                done += header.size_bytes
                self._bytes_read += header.size_bytes
                if done >= job.limits.step_bytes:
                    yield done
                    done = 0
        self._filesystem.sync_directory(job.directory)
        yield done

    def _map_batch(self, header: BatchHeader, data: Bytes) -> None:
        if header.is_control or (self._transactions is not None and self._transactions.is_aborted(header)):
            return
        base, found = header.base_offset, dict[bytes, int]()
        try:
            for entry in entries(plain_records(header, data), header.record_count):
                if entry[2] is not None:
                    found[entry[2]] = base + entry[0]
        except ApiError:
            return  # left alone, as in Retention
        put = self._latest.put
        for key, offset in found.items():
            put(key, offset)

    def _ends(self) -> list[int]:
        return [*(segment.base_offset for segment in self._segments[1:]), self._job.end_offset]

    def _scan_transactions(self, segments: list[Segment], position: int) -> int:
        """Reads the headers from the first transactional batch on; what has not ended stays for a later pass."""
        scan = self._transactions = TransactionScan()
        read = 0
        for segment in segments:
            for at, header in headers(segment, position):
                if header.is_transactional:
                    marker = marker_type(segment.read_batch(at, header), header) if header.is_control else None
                    scan.see(header, marker)
                    read += 61
            position = 0
        if scan.open:
            self._end_offset = min(self._end_offset, *scan.open.values())
        return read

    def _copy(self, sources: tuple[Segment, ...], retention: Retention) -> Iterator[int]:
        first, done = sources[0], 0
        output = self._output(first.base_offset)
        output.create()
        pending: list[Bytes] = []
        last: BatchHeader | None = None
        for source in sources:
            for _, header, data in _batches(source, 0):
                kept = retention.of(header, data)
                if kept is not None:
                    pending.append(kept)
                last = header
                done += header.size_bytes
                if done >= self._job.limits.step_bytes:
                    self._bytes_read += done
                    yield done + self._write(output, pending)
                    done = 0
                    if self._usable_bytes() < self._job.limits.spare_bytes:
                        self._is_full = True
                        discard(output)
                        return
        self._bytes_read += done
        if last is not None and not (output.size_bytes or pending):
            pending.append(without_records(last))  # recovery takes an empty segment for one whose bytes are lost
        done += self._write(output, pending)
        output.seal()
        files = [output.file, *output.save_indexes()]
        index = retained_index(self._transaction_indexes(sources), retention.markers.kept_aborts)
        if index:
            path = output.path(TRANSACTION_INDEX_SUFFIX)
            for name, content in ((path, index), (sums_path(path), sums_of(index))):
                files.append(self._filesystem.open(name, create=True))
                files[-1].pwritev([content], 0)
        for file in files:
            file.sync()
        self._groups.append(
            Cleaned(first.base_offset, output.size_bytes, tuple((s.base_offset, s.size_bytes) for s in sources))
        )
        yield done

    def _transaction_indexes(self, sources: tuple[Segment, ...]) -> Iterator[bytes]:
        for source in sources:
            try:
                yield read_index(self._filesystem, source.path(TRANSACTION_INDEX_SUFFIX))[0]
            except (FileNotFoundError, DamagedIndex):
                continue

    def _write(self, output: Segment, pending: list[Bytes]) -> int:
        written = sum(map(len, pending))
        if pending:
            output.append(pending, [read_header(data) for data in pending])
            pending.clear()
        self._bytes_written += written
        return written


def _batches(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, whole batch), each checked; CORRUPT_MESSAGE also where the file is shorter than it was."""
    expected = segment.base_offset
    try:
        for at, data in scan(segment, position):
            if not data:
                raise corrupt("its last batch is cut")
            header = validate(data)
            if header.base_offset < expected:
                raise corrupt(f"offset {header.base_offset} follows {expected - 1}")  # outside the CRC
            expected = header.next_offset
            yield at, header, data
    except (ApiError, StructError) as damaged:
        raise corrupt(f"{segment.path(LOG_SUFFIX)}: {damaged}") from damaged


class Compaction:
    """A pass that a log has begun. Do it here (run, steps), or elsewhere by its job and give back the outcome."""

    def __init__(self, filesystem: Filesystem, segments: tuple[Segment, ...], job: RewriteJob) -> None:
        self.job = job
        self.outcome: Outcome | None = None
        self.outputs: list[Segment] = []
        self._segments = segments
        self._filesystem = filesystem

    def run(self) -> None:
        """Does the whole pass here."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Does the pass here in small steps, about 256 KiB each."""
        views = tuple(segment.view() for segment in self._segments)
        work = Pass(self._filesystem, self.job, views)
        for _ in work.steps():
            yield
        self.take(work.outcome())

    def take(self, outcome: Outcome) -> None:
        """Takes up what the pass did; reads the indexes of its segments, so that nobody else has to wait for that."""
        outputs = []
        for group in outcome.groups:
            output = Segment(self._filesystem, self.job.directory, group.base_offset, self.job.index_interval_bytes)
            output.name_suffix = CLEANED_SUFFIX
            output.size_bytes = group.size_bytes
            if output.file.stat().size_bytes != group.size_bytes:
                raise corrupt(f"{output.path(LOG_SUFFIX)} is not what the cleaner wrote")
            load_indexes(output)
            with suppress(FileNotFoundError):  # most segments have none
                output.aborted = TransactionIndex.load(self._filesystem, output.path(TRANSACTION_INDEX_SUFFIX))
            outputs.append(output)
        self.outputs, self.outcome = outputs, outcome

    def settle(self) -> None:
        """Returns when the swap is on the disk: only then may the cleaner's checkpoint say so."""
        self._filesystem.sync_directory(self.job.directory)

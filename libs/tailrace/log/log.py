"""One partition's log on disk: append, read, look up, truncate, roll, retain, flush.

All methods are called from one thread; what may run in another (fsync, compaction) is handed out as an object whose
run() touches nothing of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from math import inf
from typing import Final
from weakref import ref

from tailrace.errors import ApiError, ErrorCode
from tailrace.log import append, flush, lookup, retention, truncate
from tailrace.log.append import Appended
from tailrace.log.background_lookup import Search
from tailrace.log.compaction import plan
from tailrace.log.compaction.cleanable import Dirt, assess
from tailrace.log.compaction.rewrite import Compaction
from tailrace.log.compaction.rewrite import Limits as CleanerLimits
from tailrace.log.config import LogSettings
from tailrace.log.directory.deletion import Doomed
from tailrace.log.filesystem.port import File, Filesystem
from tailrace.log.flush import Flush, Unsynced
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.limits import Limits
from tailrace.log.producers.snapshots import load_producers, save_producers
from tailrace.log.producers.state import ProducerState
from tailrace.log.read import Reader, Slice, TimestampOffset
from tailrace.log.recovery.loader import Progress, recover
from tailrace.log.retention import Look
from tailrace.log.segment.search import end_within, indexes_of, max_timestamp, position_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.sound import damaged, headers, settle
from tailrace.log.segment.transaction_index import collect
from tailrace.records.batch import Bytes, WritableBytes

__all__ = ["Appended", "Log"]

_MAX_PLACES: Final = 64
_COPIED_BYTES: Final = 65_536  # what is sent as a copy, mostly, and so may as well be read to find its end
_ANY_EPOCH: Final = 2**31 - 1
_NEVER_MS: Final = 2**63 - 1  # flush.ms, by default
_CLEANER_LIMITS: Final = CleanerLimits()
PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


def _hear(log: ref[Log], segment: Segment) -> None:
    here = log()
    if here is not None:
        here.heard_damage(segment)


class Log:
    """Open with Log.open. Offsets are absolute, times are milliseconds, sizes bytes."""

    def __init__(
        self, filesystem: Filesystem, directory: str, config: LogSettings, segments: list[Segment], epochs: LeaderEpochs
    ) -> None:
        self.directory = directory
        # A segment that held its log would keep the files of a deleted one, and their space, until a collection.
        self._hears = partial(_hear, ref(self))
        self.epochs = epochs
        self.latest_epoch = epochs.latest  # as an attribute, for the append path
        self.producers = ProducerState()
        self.has_aborted = any(segment.aborted for segment in segments)  # or had since it was opened
        self.producer_id_expiration_ms = PRODUCER_ID_EXPIRATION_MS
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.lower_recovery_point: Callable[[int], None] = lambda offset: None  # makes it durable; may raise OSError
        self.lower_cleaned_offset: Callable[[int], None] = lambda offset: None  # likewise
        self.cleaned_offset = 0  # compaction has seen everything below (cleaner-offset-checkpoint)
        self.cut_bytes = 0  # what recovery took off the tail when the log was opened
        self.epochs_mended = False  # leader-epoch-checkpoint was damaged then
        self.on_damage: Callable[[Segment], None] = lambda segment: None  # hears once of each damaged segment or index
        self.storage_error: OSError | None = None  # of the last failed write
        self.filesystem = filesystem
        self.reader = Reader()
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.places: dict[int, tuple[Segment, int]] = {}  # where the batch after a finished read begins
        self.doomed = Doomed()
        self.flushed_ms = 0
        self.flushed_end = 0  # of the flushes that were begun
        self.compaction: Compaction | None = None  # the pass that may still be finished
        self.snapshot_offset = -1  # of the last snapshot written
        # Names that a crash could still take back; the partition's own is in the parent.
        self.unsynced = Unsynced(directory, directory.rpartition("/")[0])
        self.cuts = 0  # how often the log's end went back: a flush or a copy begun before may hold what it does not
        self.closed_end = -1  # the log end when all files were last as a clean start needs them
        self.config = config

    @classmethod
    def open(
        cls,
        filesystem: Filesystem,
        directory: str,
        config: LogSettings,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        compacted: bool = False,
        clean: bool = False,
        now_ms: int = 0,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        progress: Progress | None = None,
    ) -> Log:
        """Opens or makes the log in directory; unless it was shut down cleanly, checks it from recovery_point on.

        compacted: it may have been, whatever its policy is now, so that offsets may be missing between segments.
        progress is for another thread, which may stop it: RecoveryStopped.
        """
        progress = progress or Progress()
        filesystem.make_directory(directory)
        recovered = recover(
            filesystem,
            directory,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            index_interval_bytes=config.index_interval_bytes,
            clean=clean,
            dense=not (compacted or cleaned_offset or "compact" in config.cleanup_policy),
            cleaned_offset=cleaned_offset if cleaned_offset or not compacted else None,
            progress=progress,
        )
        log = cls(filesystem, directory, config, recovered.segments, recovered.epochs)
        log.producer_id_expiration_ms = producer_id_expiration_ms
        log.log_end_offset = recovered.log_end_offset
        log.recovery_point = min(recovery_point, recovered.log_end_offset)
        log.log_start_offset = max(log_start_offset, log.bases[0])
        log.cleaned_offset = min(cleaned_offset, log.log_end_offset)
        log.cut_bytes = recovered.cut_bytes
        log.flushed_ms = now_ms
        if log.log_start_offset > log.log_end_offset:
            log.reset_to(log_start_offset)
        indexes_of(log.active)
        log.active.measure_indexes()  # recovery did not know the topic's segment.index.bytes
        log.epochs.truncate_from_start(log.log_start_offset)
        log.producers = load_producers(filesystem, directory, log.segments, log.log_end_offset, progress.passed)
        log.epochs_mended = recovered.epochs_mended
        if log.recovery_point < log.log_end_offset:
            for segment in log.unflushed_segments():
                segment.file.owe_sync()
        if clean and recovery_point == log.log_end_offset and not log.epochs_mended:
            log.unsynced.done(log.unsynced.version)
            log.closed_end = log.log_end_offset
        return log

    # -- settings and sizes ------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogSettings:
        """The topic's settings; assign when they change."""
        return self._config

    @config.setter
    def config(self, config: LogSettings) -> None:
        self._config = config
        self.limits = Limits(config)
        for segment in self.segments:
            self.own(segment)

    @property
    def size_bytes(self) -> int:
        """Of all .log files."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def leader_epoch(self) -> int:
        """The last epoch that wrote records, -1 if none did."""
        return self.epochs.latest

    @property
    def first_base_offset(self) -> int:
        return self.bases[0]

    @property
    def segment_base_offsets(self) -> list[int]:
        return list(self.bases)

    # -- append ------------------------------------------------------------------------------------------------------

    def append(
        self, batches: Sequence[WritableBytes], leader_epoch: int, now_ms: int, *, from_client: bool = True
    ) -> list[Appended]:
        """Appends produced batches, one an item, with one write, and answers each; they are stamped in place.

        A refused batch does not stop the others. from_client=False (a coordinator's batches, markers, barriers) allows
        control batches and any size and time. What cannot be written is answered KAFKA_STORAGE_ERROR (see
        storage_error) and leaves the log as it was.
        """
        return append.append(self, batches, leader_epoch, now_ms, from_client)

    def storage_refusal(self, error: OSError) -> Appended:
        """What a batch that could not be written is answered."""
        self.storage_error = error
        return Appended(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(error))

    def append_replicated(self, records: Bytes, now_ms: int, max_epoch: int = _ANY_EPOCH) -> int:
        """Appends what a leader's log holds, offsets and epochs kept; the new log end offset. May raise OSError.

        CORRUPT_MESSAGE, with nothing appended from there on, for a batch that is damaged, does not follow, or is of a
        leader epoch above max_epoch, that of the leader it came from.
        """
        return append.append_replicated(self, records, now_ms, max_epoch)

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """Takes up that the leader epoch's first record is at start_offset."""
        self.latest_epoch = max(self.latest_epoch, epoch)
        if self.epochs.assign(epoch, start_offset):
            self.unsynced.epochs_changed()

    # -- read --------------------------------------------------------------------------------------------------------

    def read_cached(self, offset: int, max_bytes: int, max_offset: int | None = None, min_one: bool = True) -> Slice:
        """As read; NotCached where finding the batches would have to wait for the disk."""
        self.reader.waits = False
        try:
            return self.read(offset, max_bytes, max_offset, min_one)
        finally:
            self.reader.waits = True

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None, min_one: bool = True) -> Slice:
        """Whole batches from the one that holds offset, out of one segment, below max_offset (the high watermark).

        At most max_bytes, but at least one batch if min_one; empty at the end. OFFSET_OUT_OF_RANGE outside the log.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            message = f"offset {offset} is outside [{self.log_start_offset}, {end_offset}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        limit = end_offset if max_offset is None or max_offset > end_offset else max_offset
        if offset >= limit:
            return Slice(self.active.file, 0, 0)
        place = self.places.get(offset)
        known = place is not None and place[1] < place[0].size_bytes
        if place is None or not known:
            place = self._locate(offset)
        segment, start = place
        end, next_offset = self._end_in(segment, limit)
        data: Bytes = b""
        if end - start > max_bytes:
            if max_bytes <= _COPIED_BYTES:
                data = segment.read_to(start, start + max_bytes)
            end, next_offset = end_within(segment, start, start + max_bytes, data)
            if end == start and min_one:
                end, next_offset = self._one(segment, start, end, next_offset)
        if segment.holes:
            return self._read_beside_holes(offset, limit, max_bytes, min_one)
        self._remember(next_offset, segment, end)
        closed = segment is not self.active
        piece = Slice(segment.file, start, max(0, end - start), next_offset, closed=closed)
        if 0 < piece.length <= len(data):
            piece.data = data
        if start < segment.sound_from or end > segment.sound_to:
            piece.unsettled = partial(settle, segment, start, piece.length, offset if known else -1)
        return piece

    def _one(self, segment: Segment, start: int, end: int, next_offset: int) -> tuple[int, int]:
        """(end position, offset there) of the batch at start."""
        for at, header in headers(segment, start):
            return at + header.size_bytes, header.next_offset
        return end, next_offset

    def _read_beside_holes(self, offset: int, limit: int, max_bytes: int, min_one: bool) -> Slice:
        """As read, where a segment is known to be damaged."""
        self.places.clear()
        segment, start = self._locate(offset)
        hole = segment.hole_behind(start)
        if hole is not None and hole.position <= start:
            raise damaged(segment, hole)
        end, next_offset = self._end_in(segment, limit)
        if hole is not None and hole.position < end:
            end, next_offset = hole.position, hole.first_offset
        if end - start > max_bytes:
            end, next_offset = end_within(segment, start, start + max_bytes)
            if end == start and min_one:
                end, next_offset = self._one(segment, start, end, next_offset)
        return Slice(segment.file, start, max(0, end - start), next_offset)

    def _locate(self, offset: int) -> tuple[Segment, int]:
        """The segment and position of the batch that holds offset or, where compaction left a gap, of the next."""
        for segment in self.segments[max(0, bisect_right(self.bases, offset) - 1) :]:
            position = position_of(segment, offset)
            if position < segment.size_bytes:
                return segment, position
        return self.active, self.active.size_bytes

    def _end_in(self, segment: Segment, limit: int) -> tuple[int, int]:
        """(end position, offset there) of the part of segment that lies below limit."""
        if segment is self.active:
            segment_end = self.log_end_offset
        else:
            segment_end = self.bases[bisect_right(self.bases, segment.base_offset)]
        if limit >= segment_end:
            return segment.size_bytes, segment_end
        place = self.places.get(limit)
        if place is not None and place[0] is segment:
            return place[1], limit
        position = position_of(segment, limit)
        self._remember(limit, segment, position)
        return position, limit

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self.places) >= _MAX_PLACES:
            self.places.clear()
        self.places[offset] = (segment, position)

    # -- transactions ------------------------------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, its marker included, below the high watermark (KIP-98)."""
        transactions = self.producers.transactions
        if transactions.first_unstable_offset < high_watermark:
            transactions.replicated(high_watermark)
        first_offset = transactions.first_unstable_offset
        return high_watermark if first_offset >= high_watermark else max(first_offset, self.log_start_offset)

    def aborted_transactions(self, offset: int, piece: Slice) -> list[tuple[int, int]]:
        """The (producer id, first offset) of those that may have records in a piece that was read at offset."""
        if not self.has_aborted or not piece.length:
            return []
        first = max(0, bisect_right(self.bases, offset) - 1)
        return collect(islice(self.segments, first, None), offset, piece.next_offset)

    # -- look up -----------------------------------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of any batch, -1 for an empty log."""
        return max(max_timestamp(segment) for segment in self.segments)

    def offset_for_timestamp(self, timestamp_ms: int, max_offset: int | None = None) -> TimestampOffset | None:
        """The first record below max_offset whose timestamp is timestamp_ms or later."""
        end_offset = self.log_end_offset if max_offset is None else min(max_offset, self.log_end_offset)
        return lookup.first_at_or_after(self.segments, timestamp_ms, self.log_start_offset, end_offset)

    def offset_of_max_timestamp(self, max_offset: int | None = None) -> TimestampOffset | None:
        """The first record below max_offset with the largest timestamp (KIP-734)."""
        end_offset = self.log_end_offset if max_offset is None else min(max_offset, self.log_end_offset)
        return lookup.of_max_timestamp(self.segments, self.log_start_offset, end_offset, self.log_end_offset)

    def search(self, timestamp_ms: int | None, max_offset: int) -> Search:
        """offset_for_timestamp, or offset_of_max_timestamp for None, for another thread to run."""
        return Search(self, timestamp_ms, min(max_offset, self.log_end_offset))

    def search_in_haste(self, timestamp_ms: int | None, max_offset: int) -> TimestampOffset | None:
        """What such a search finds, at once; NotCached where it would wait for the disk or take long."""
        reader = self.reader
        reader.waits, reader.left_bytes = False, lookup.BYTES_IN_HASTE
        try:
            if timestamp_ms is None:
                return self.offset_of_max_timestamp(max_offset)
            return self.offset_for_timestamp(timestamp_ms, max_offset)
        finally:
            reader.waits, reader.left_bytes = True, inf

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(largest epoch not above leader_epoch, its end offset), (-1, -1) if unknown (KIP-320)."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote offset, -1 if unknown."""
        return self.epochs.epoch_at(offset)

    # -- cut ---------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cuts everything from the batch that holds offset on (replication).

        Where nothing is cut, an epoch that began at the log end and never wrote goes all the same: its leader may have
        been deposed before its first record, and a later epoch begins there (KIP-279).
        """
        truncate.truncate_to(self, offset)

    def reset_to(self, offset: int) -> None:
        """Drops everything and begins again at offset; nothing is known of producers any more, as in Kafka."""
        truncate.reset_to(self, offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """DeleteRecords: nothing below offset is served any more; whole segments go with the next delete_retention.

        The caller has checked that offset is not above the high watermark.
        """
        assert offset <= self.log_end_offset
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.unsynced.epochs_changed()

    def roll(self, base_offset: int = -1) -> None:
        """Closes the active segment and begins one at the log end, or at base_offset if that lies behind it.

        Nothing happens if it is empty and begins there already. One that a cut within a gap of compaction has left
        empty goes: after a crash an empty segment is one that has lost its records (recovery.check_tail).
        """
        base_offset = max(base_offset, self.log_end_offset)
        old = self.active
        if not old.size_bytes and old.base_offset == base_offset:
            return
        emptied = not old.size_bytes and old.base_offset < self.log_end_offset
        old.seal()
        indexes = self.save_indexes(old)
        if self.log_end_offset <= max(self.recovery_point, self.flushed_end):
            # A recovery point at its end says that nothing of it need be checked: recovery believes its indexes.
            old.sync(*indexes)
        self.closed_end = -1
        self.save_snapshot()
        segment = self.new_segment(base_offset)
        try:
            segment.create()
            if emptied:
                self._drop_active()
        except OSError:
            # Its name may be there: nothing is appended behind its base offset before the roll has succeeded.
            old.full = True
            raise
        self.take_up(segment)

    def _drop_active(self) -> None:
        self.doomed.take(self.active)
        del self.segments[-1], self.bases[-1]
        self.places.clear()
        if self.segments:
            self.active = self.segments[-1]

    def new_segment(self, base_offset: int) -> Segment:
        return self.own(Segment(self.filesystem, self.directory, base_offset, self._config.index_interval_bytes))

    def own(self, segment: Segment) -> Segment:
        """Makes the segment one of this log's: with its settings, its reader, and telling it of damage."""
        segment.index_interval_bytes = self._config.index_interval_bytes
        segment.index_bytes = self._config.segment_index_bytes
        segment.on_damage, segment.reader = self._hears, self.reader
        return segment

    def heard_damage(self, segment: Segment) -> None:
        self.places.clear()
        with suppress(OSError):  # the indexes are right in memory; the guard hears of it
            indexes_of(segment)
            segment.save_indexes()
        self.on_damage(segment)

    def take_up(self, segment: Segment) -> None:
        if self.segments:
            self.active.end_offset = segment.base_offset
        self.segments.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment
        self.unsynced.names_changed(self.directory)

    def save_indexes(self, segment: Segment) -> tuple[File, ...]:
        if segment.aborted is not None and not segment.aborted.named:
            self.unsynced.names_changed(self.directory)
        indexes_of(segment)
        return segment.save_indexes()

    def save_snapshot(self) -> None:
        if self.snapshot_offset != self.log_end_offset:
            save_producers(self.filesystem, self.directory, self.producers, self.log_end_offset)
            self.snapshot_offset = self.log_end_offset

    # -- retention ---------------------------------------------------------------------------------------------------

    def delete_retention(self, now_ms: int, high_watermark: int, *, known_only: bool = False) -> int:
        """Gives up segments by retention.ms, retention.bytes and the log start offset; how many.

        Their files are renamed to .deleted and come out of removable_files() after file.delete.delay.ms. known_only:
        none is given up by an age that would have to be read.
        """
        return retention.delete_retention(self, now_ms, high_watermark, known_only=known_only)

    def begin_look_at_age(self, now_ms: int, high_watermark: int) -> Look | None:
        """What must be read for that, in a thread if you like, an old segment at a time; None if nothing."""
        return retention.begin_look(self, now_ms, high_watermark)

    def removable_files(self, now_ms: int) -> list[str]:
        """Deleted files whose delay is over; the caller removes them (a large one takes a while: in a thread)."""
        return self.doomed.due(now_ms)

    # -- compaction --------------------------------------------------------------------------------------------------

    def dirt(self, now_ms: int, limit: int) -> Dirt | None:
        """How much a pass over the closed segments below limit could clean; None where there is nothing to clean."""
        return assess(self.segments, self.cleaned_offset, limit, self._config, now_ms)

    def begin_compaction(self, now_ms: int, limit: int, limits: CleanerLimits = _CLEANER_LIMITS) -> Compaction | None:
        """A pass over the closed segments below limit (the high watermark); None if none is due.

        Run it in a thread, step by step or in another process, then give it to finish_compaction.
        """
        return plan.begin(self, now_ms, limit, limits)

    def is_compacting(self, compaction: Compaction) -> bool:
        """Whether the pass is still of use: the log was not cut under it, and no later one was begun."""
        return self.compaction is compaction

    def stop_compaction(self) -> None:
        """What a pass on its way has not swapped in yet stays out: the log is to be copied as it is."""
        self.compaction = None

    def finish_compaction(self, compaction: Compaction) -> None:
        """Swaps in what the pass wrote, at once and on the disk."""
        for _ in self.swap_compaction(compaction):
            pass
        compaction.settle()
        self.end_compaction(compaction)

    def swap_compaction(self, compaction: Compaction) -> Iterator[None]:
        """Swaps in the copies, one a step; what retention took meanwhile stays away, after a truncation none is used.

        Then run the compaction's settle(), in a thread if you like, and give it to end_compaction.
        """
        return plan.swap(self, compaction)

    def end_compaction(self, compaction: Compaction) -> None:
        """The swap is on the disk: what the pass covered is clean, unless the log was cut meanwhile."""
        if self.compaction is compaction and compaction.outcome is not None:
            self.cleaned_offset = compaction.outcome.cleaned_offset
            self.compaction = None

    # -- flush -------------------------------------------------------------------------------------------------------

    def begin_flush(self, now_ms: int, *, everything: bool = False) -> Flush | None:
        """What flush.messages, flush.ms and rolled segments ask to be synced now; None if nothing.

        Run it, in a thread if you like, then give it to finish_flush.
        """
        return flush.begin(self, now_ms, everything=everything)

    @property
    def flush_to_come(self) -> bool:
        """Whether a flush may become due though nothing is appended any more."""
        if self.recovery_point >= self.log_end_offset:
            return False
        return self._config.flush_ms < _NEVER_MS or self.recovery_point < self.active.base_offset

    def finish_flush(self, done: Flush) -> None:
        """Moves the recovery point up to what the flush has synced; not where the log was cut meanwhile."""
        if done.cuts != self.cuts:
            return
        self.recovery_point = max(self.recovery_point, min(done.offset, self.log_end_offset))
        self.unsynced.done(done.version)
        self.unsynced.metadata = self.unsynced.metadata and not done.metadata
        self.flushed_ms = done.now_ms

    def flush(self, now_ms: int = 0) -> None:
        """Returns when the whole log is on the disk."""
        begun = self.begin_flush(now_ms, everything=True)
        if begun is not None:
            begun.run()
            self.finish_flush(begun)

    def renamed(self, directory: str) -> None:
        """Its directory has another name from now on, which the next flush makes durable. No flush may be running."""
        for segment in self.segments:
            segment.directory = directory
        self.unsynced.renamed(self.directory, directory)
        self.directory = directory

    def abandon(self) -> None:
        """The log's directory is being deleted: a flush on its way writes nothing there any more.

        Its files are closed with their last readers: the log and its segments know one another, so that they would
        stay open, and their space taken, until a garbage collection came by.
        """
        self.unsynced.gone = True
        self.cuts += 1  # what is being looked up in it is not there any more
        self.compaction = None
        self.places.clear()
        for segment in self.segments:
            segment.close()

    def begin_close(self) -> Flush | None:
        """Writes what a clean start needs and returns what must be synced for it, None if all is as it was opened."""
        return flush.begin_close(self)

    def finish_close(self, done: Flush) -> None:
        """The log was synced and may be opened as clean."""
        self.finish_flush(done)
        self.closed_end = self.log_end_offset

    def close(self) -> None:
        """Flushes and leaves all files as a clean start needs them."""
        begun = self.begin_close()
        if begun is not None:
            begun.run()
            self.finish_close(begun)

    @property
    def unflushed_bytes(self) -> int:
        """Of the segments that a recovery would look into: those that end behind the recovery point."""
        return sum(segment.size_bytes for segment in self.unflushed_segments())

    def unflushed_segments(self) -> list[Segment]:
        return self.segments[max(0, bisect_right(self.bases, self.recovery_point) - 1) :]

"""One partition's log on disk: append, read, look up, truncate, roll, retain, flush.

All methods are called from one thread; what may run in another (fsync, compaction) is handed out as an object whose
run() touches nothing of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.log import appending, flush, lookup
from tailrace.log.appending import Appended, Limits, Run
from tailrace.log.cleanable import Dirt, assess, is_due
from tailrace.log.compaction import Compaction, Job
from tailrace.log.compaction import Limits as CleanerLimits
from tailrace.log.config import LogSettings
from tailrace.log.deletion import Doomed
from tailrace.log.filesystem import File, Filesystem
from tailrace.log.flush import Flush, Unsynced
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.producer_state import ProducerState
from tailrace.log.reading import Slice, TimestampOffset
from tailrace.log.recovery import recover
from tailrace.log.retained import LastRecord
from tailrace.log.retention import SegmentFacts, expendable
from tailrace.log.segment import Segment
from tailrace.log.snapshots import (
    load_producers,
    remove_all_snapshots,
    remove_snapshots,
    remove_snapshots_above,
    save_producers,
)
from tailrace.log.swap import discard, swap_in
from tailrace.log.transaction_index import collect
from tailrace.records.batch import (
    BatchHeader,
    Bytes,
    WritableBytes,
    corrupt,
    split,
    validate,
)

__all__ = ["Appended", "Log"]

_MAX_PLACES: Final = 64
_NEVER_MS: Final = 2**63 - 1  # flush.ms, by default
_CLEANER_LIMITS: Final = CleanerLimits()
_PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class Log:
    """Open with Log.open. Offsets are absolute, times are milliseconds, sizes bytes."""

    def __init__(
        self, filesystem: Filesystem, directory: str, config: LogSettings, segments: list[Segment], epochs: LeaderEpochs
    ) -> None:
        self.directory = directory
        self.epochs = epochs
        self.latest_epoch = epochs.latest  # as an attribute, for the append path
        self.producers = ProducerState()
        self.has_aborted = any(segment.aborted for segment in segments)  # or had since it was opened
        self.producer_id_expiration_ms = _PRODUCER_ID_EXPIRATION_MS
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.lower_recovery_point: Callable[[int], None] = lambda offset: None  # makes it durable; may raise OSError
        self.lower_cleaned_offset: Callable[[int], None] = lambda offset: None  # likewise
        self.cleaned_offset = 0  # compaction has seen everything below (cleaner-offset-checkpoint)
        self.cut_bytes = 0  # what recovery took off the tail when the log was opened
        self.storage_error: OSError | None = None  # of the last failed write
        self._filesystem = filesystem
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._places: dict[int, tuple[Segment, int]] = {}  # where the batch after a finished read begins
        self._doomed = Doomed()
        self._flushed_ms = 0
        self._flushed_end = 0  # of the flushes that were begun
        self._compaction: Compaction | None = None  # the pass that may still be finished
        self._snapshot_offset = -1  # of the last snapshot written
        # Names that a crash could still take back; the partition's own is in the parent.
        self._unsynced = Unsynced(directory, directory.rpartition("/")[0])
        self._cuts = 0  # how often the log's end went back: what a flush then syncs is not what it began with
        self._closed_end = -1  # the log end when all files were last as a clean start needs them
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
        clean: bool = False,
        now_ms: int = 0,
        producer_id_expiration_ms: int = _PRODUCER_ID_EXPIRATION_MS,
    ) -> Log:
        """Opens or makes the log in directory; unless it was shut down cleanly, checks it from recovery_point on."""
        filesystem.make_directory(directory)
        recovered = recover(
            filesystem,
            directory,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            index_interval_bytes=config.index_interval_bytes,
            clean=clean,
            dense=not cleaned_offset and "compact" not in config.cleanup_policy,
        )
        log = cls(filesystem, directory, config, recovered.segments, recovered.epochs)
        log.producer_id_expiration_ms = producer_id_expiration_ms
        log.log_end_offset = recovered.log_end_offset
        log.recovery_point = min(recovery_point, recovered.log_end_offset)
        log.log_start_offset = max(log_start_offset, log._bases[0])
        log.cleaned_offset = min(cleaned_offset, log.log_end_offset)
        log.cut_bytes = recovered.cut_bytes
        log._flushed_ms = now_ms
        if log.log_start_offset > log.log_end_offset:
            log.reset_to(log_start_offset)
        log.epochs.truncate_from_start(log.log_start_offset)
        log.producers = load_producers(filesystem, directory, log._segments, log.log_end_offset)
        log.producers.expire(now_ms, producer_id_expiration_ms)
        if clean and recovery_point == log.log_end_offset:
            log._unsynced.done(log._unsynced.version)
            log._closed_end = log.log_end_offset
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
        for segment in self._segments:
            segment.index_interval_bytes = config.index_interval_bytes
            segment.index_bytes = config.segment_index_bytes

    @property
    def size_bytes(self) -> int:
        """Of all .log files."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def leader_epoch(self) -> int:
        """The last epoch that wrote records, -1 if none did."""
        return self.epochs.latest

    @property
    def first_base_offset(self) -> int:
        return self._bases[0]

    @property
    def cuts(self) -> int:
        """How often the log's end went back: a copy of it may hold what it does not."""
        return self._cuts

    @property
    def segment_base_offsets(self) -> list[int]:
        return list(self._bases)

    # -- append ------------------------------------------------------------------------------------------------------

    def append(
        self, batches: Sequence[WritableBytes], leader_epoch: int, now_ms: int, *, from_client: bool = True
    ) -> list[Appended]:
        """Appends produced batches, one an item, with one write, and answers each; they are stamped in place.

        A refused batch does not stop the others. from_client=False (a coordinator's batches, markers, barriers) allows
        control batches and any size and time. What cannot be written is answered KAFKA_STORAGE_ERROR (see
        storage_error) and leaves the log as it was.
        """
        return appending.append(self, batches, leader_epoch, now_ms, from_client)

    def storage_refusal(self, error: OSError) -> Appended:
        """What a batch that could not be written is answered."""
        self.storage_error = error
        return Appended(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(error))

    def append_replicated(self, records: Bytes, now_ms: int) -> int:
        """Appends what a leader's log holds, offsets and epochs kept; the new log end offset. May raise OSError."""
        views: list[memoryview] = []
        headers: list[BatchHeader] = []
        free, roll_ms, max_offset = Run(self, -1).room()
        next_offset = self.log_end_offset
        for view in split(records):
            header = validate(view)
            if header.base_offset < next_offset:
                raise corrupt(f"replicated offset {header.base_offset} is below the log end {next_offset}")
            if len(view) > free or header.max_timestamp > roll_ms or header.last_offset > max_offset:
                self._write_replicated(views, headers)
                views, headers = [], []
                self.roll()
                free, roll_ms, max_offset = Run(self, -1).room()
            views.append(view)
            headers.append(header)
            next_offset = header.next_offset
            free -= len(view)
        self._write_replicated(views, headers)
        return self.log_end_offset

    def _write_replicated(self, views: list[memoryview], headers: list[BatchHeader]) -> None:
        """One write for what goes into one segment."""
        if not headers:
            return
        self.active.append(views, headers)
        for header, view in zip(headers, views, strict=True):
            if header.partition_leader_epoch > self.latest_epoch:
                self.note_epoch(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                appending.note_producer(self, header, view)
        self.log_end_offset = headers[-1].next_offset

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """Takes up that the leader epoch's first record is at start_offset."""
        self.latest_epoch = max(self.latest_epoch, epoch)
        if self.epochs.assign(epoch, start_offset):
            self._unsynced.epochs_changed()

    # -- read --------------------------------------------------------------------------------------------------------

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
        place = self._places.get(offset)
        if place is None or place[1] >= place[0].size_bytes:
            place = self._locate(offset)
        segment, start = place
        end, next_offset = self._end_in(segment, limit)
        if end - start > max_bytes:
            end, next_offset = segment.end_within(start, start + max_bytes)
            if end == start and min_one:
                header = next(segment.headers(start))[1]
                end, next_offset = start + header.size_bytes, header.next_offset
        self._remember(next_offset, segment, end)
        return Slice(segment.file, start, max(0, end - start), next_offset)

    def _locate(self, offset: int) -> tuple[Segment, int]:
        """The segment and position of the batch that holds offset or, where compaction left a gap, of the next."""
        for segment in self._segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            position = segment.position_of(offset)
            if position < segment.size_bytes:
                return segment, position
        return self.active, self.active.size_bytes

    def _end_in(self, segment: Segment, limit: int) -> tuple[int, int]:
        """(end position, offset there) of the part of segment that lies below limit."""
        if segment is self.active:
            segment_end = self.log_end_offset
        else:
            segment_end = self._bases[bisect_right(self._bases, segment.base_offset)]
        if limit >= segment_end:
            return segment.size_bytes, segment_end
        place = self._places.get(limit)
        if place is not None and place[0] is segment:
            return place[1], limit
        position = segment.position_of(limit)
        self._remember(limit, segment, position)
        return position, limit

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        self._places[offset] = (segment, position)

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
        first = max(0, bisect_right(self._bases, offset) - 1)
        return collect(islice(self._segments, first, None), offset, piece.next_offset)

    # -- look up -----------------------------------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of any batch, -1 for an empty log."""
        return max(segment.max_timestamp for segment in self._segments)

    def offset_for_timestamp(self, timestamp_ms: int, max_offset: int | None = None) -> TimestampOffset | None:
        """The first record below max_offset whose timestamp is timestamp_ms or later."""
        end_offset = self.log_end_offset if max_offset is None else min(max_offset, self.log_end_offset)
        return lookup.first_at_or_after(self._segments, timestamp_ms, self.log_start_offset, end_offset)

    def offset_of_max_timestamp(self, max_offset: int | None = None) -> TimestampOffset | None:
        """The first record below max_offset with the largest timestamp (KIP-734)."""
        end_offset = self.log_end_offset if max_offset is None else min(max_offset, self.log_end_offset)
        return lookup.of_max_timestamp(self._segments, self.log_start_offset, end_offset, self.log_end_offset)

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
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self.latest_epoch = self.epochs.latest
                self._unsynced.epochs_changed()
            return
        if offset < self.recovery_point:
            # On the disk before the cut: recovery believes what lies below, and new records are about to.
            self.lower_recovery_point(self._batch_start(offset))
        if offset < self.cleaned_offset:
            # Or a pass after a crash would take new records for ones that it has seen, and let old values live.
            self.lower_cleaned_offset(offset)
        keep = bisect_right(self._bases, offset)
        if keep == 0:
            self.reset_to(offset)
            return
        for segment in self._segments[keep:]:
            self._doomed.add(segment, due_ms=0)
        # With them, or a snapshot of what was cut could come back behind new records of its offsets.
        remove_snapshots_above(self._filesystem, self.directory, offset)
        self._filesystem.sync_directory(self.directory)
        del self._segments[keep:], self._bases[keep:]
        active = self.active = self._segments[-1]
        position = active.position_of(offset)
        end_offset = offset
        if position < active.size_bytes:
            end_offset = min(offset, next(active.headers(position))[1].base_offset)
        active.truncate(position)
        self._after_cut(end_offset)

    def _batch_start(self, offset: int) -> int:
        segment = self._segments[max(0, bisect_right(self._bases, offset) - 1)]
        header = next(segment.headers(segment.position_of(offset)), None)
        return offset if header is None else min(offset, header[1].base_offset)

    def reset_to(self, offset: int) -> None:
        """Drops everything and begins again at offset; nothing is known of producers any more, as in Kafka."""
        remove_all_snapshots(self._filesystem, self.directory)
        for segment in self._segments:
            self._doomed.add(segment, due_ms=0)
        self._filesystem.sync_directory(self.directory)
        self._segments, self._bases = [], []
        self.log_start_offset = offset
        segment = self._segment(offset)
        segment.forget_indexes()
        self._take_up(segment)
        self._after_cut(offset)
        segment.create()  # last: if it fails nothing more is taken, and nothing goes where the old segments were

    def _after_cut(self, end_offset: int) -> None:
        self._cuts += 1
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, end_offset)
        self._places.clear()
        self._closed_end = self._snapshot_offset = -1
        # What the cut took may have superseded what a pass on its way leaves out.
        self._compaction = None
        if self.epochs.truncate_from_end(end_offset):
            self.latest_epoch = self.epochs.latest
            self._unsynced.epochs_changed()
        self.producers = load_producers(self._filesystem, self.directory, self._segments, end_offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """DeleteRecords: nothing below offset is served any more; whole segments go with the next delete_retention.

        The caller has checked that offset is not above the high watermark.
        """
        assert offset <= self.log_end_offset
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self._unsynced.epochs_changed()

    def roll(self) -> None:
        """Closes the active segment and begins one at the log end; nothing happens if it is empty."""
        old = self.active
        if not old.size_bytes:
            return
        old.seal()
        indexes = self._save_indexes(old)
        if self.log_end_offset <= max(self.recovery_point, self._flushed_end):
            # A recovery point at its end says that nothing of it need be checked: recovery believes its indexes.
            old.sync(*indexes)
        self._closed_end = -1
        self._save_snapshot()
        segment = self._segment(self.log_end_offset)
        try:
            segment.create()
        except OSError:
            # Its name may be there: nothing is appended behind its base offset before the roll has succeeded.
            old.full = True
            raise
        self._take_up(segment)

    def _segment(self, base_offset: int) -> Segment:
        segment = Segment(self._filesystem, self.directory, base_offset, self._config.index_interval_bytes)
        segment.index_bytes = self._config.segment_index_bytes
        return segment

    def _take_up(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._unsynced.names_changed(self.directory)

    def _save_indexes(self, segment: Segment) -> tuple[File, ...]:
        if segment.aborted is not None and not segment.aborted.named:
            self._unsynced.names_changed(self.directory)
        return segment.save_indexes()

    def _save_snapshot(self) -> None:
        if self._snapshot_offset != self.log_end_offset:
            save_producers(self._filesystem, self.directory, self.producers, self.log_end_offset)
            self._snapshot_offset = self.log_end_offset

    # -- retention ---------------------------------------------------------------------------------------------------

    def delete_retention(self, now_ms: int, high_watermark: int) -> int:
        """Gives up segments by retention.ms, retention.bytes and the log start offset; how many.

        Their files are renamed to .deleted and come out of removable_files() after file.delete.delay.ms.
        """
        self.producers.expire(now_ms, self.producer_id_expiration_ms)
        by_policy = "delete" in self._config.cleanup_policy
        ends = [*self._bases[1:], self.log_end_offset]
        facts = [
            SegmentFacts(end, segment.size_bytes, self._largest_timestamp(segment) if by_policy else 0)
            for segment, end in zip(self._segments, ends, strict=True)
            if segment.size_bytes or segment is not self.active
        ]
        count = expendable(
            facts,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=high_watermark,
            retention_ms=self._config.retention_ms if by_policy else -1,
            retention_bytes=self._config.retention_bytes if by_policy else -1,
        )
        if count:
            self._give_up(count, now_ms + self._config.file_delete_delay_ms)
        return count

    def _largest_timestamp(self, segment: Segment) -> int:
        return segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms

    def _give_up(self, count: int, due_ms: int) -> None:
        if count == len(self._segments):
            self.roll()
        self.advance_log_start_offset(max(self.log_start_offset, self._bases[count]))
        for segment in self._segments[:count]:
            self._doomed.add(segment, due_ms)
        del self._segments[:count], self._bases[:count]
        self._places.clear()
        remove_snapshots(self._filesystem, self.directory, self._bases)

    def removable_files(self, now_ms: int) -> list[str]:
        """Deleted files whose delay is over; the caller removes them (a large one takes a while: in a thread)."""
        return self._doomed.due(now_ms)

    # -- compaction --------------------------------------------------------------------------------------------------

    def dirt(self, now_ms: int, limit: int) -> Dirt | None:
        """How much a pass over the closed segments below limit could clean; None where there is nothing to clean."""
        return assess(self._segments, self.cleaned_offset, limit, self._config, now_ms)

    def begin_compaction(self, now_ms: int, limit: int, limits: CleanerLimits = _CLEANER_LIMITS) -> Compaction | None:
        """A pass over the closed segments below limit (the high watermark); None if none is due.

        Run it in a thread, step by step or in another process, then give it to finish_compaction.
        """
        dirt = self.dirt(now_ms, limit)
        if dirt is None or not is_due(dirt, self._config):
            return None
        last_records = {
            producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else -1, entry.producer_epoch)
            for producer_id, entry in self.producers.entries.items()
        }
        job = Job(
            self.directory,
            tuple((segment.base_offset, segment.size_bytes) for segment in dirt.segments),
            dirt.first_dirty_offset,
            dirt.end_offset,
            now_ms,
            self._config.delete_retention_ms,
            self._config.segment_bytes,
            self._config.index_interval_bytes,
            last_records,
            limits,
        )
        self._compaction = Compaction(self._filesystem, dirt.segments, job)
        return self._compaction

    def is_compacting(self, compaction: Compaction) -> bool:
        """Whether the pass is still of use: the log was not cut under it, and no later one was begun."""
        return self._compaction is compaction

    def stop_compaction(self) -> None:
        """What a pass on its way has not swapped in yet stays out: the log is to be copied as it is."""
        self._compaction = None

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
        assert compaction.outcome is not None
        for output, group in zip(compaction.outputs, compaction.outcome.groups, strict=True):
            bases = [base_offset for base_offset, _ in group.sources]
            at = bisect_right(self._bases, bases[0]) - 1
            here = self._segments[at : at + len(bases)] if at >= 0 else []
            sizes = tuple((segment.base_offset, segment.size_bytes) for segment in here)
            if self._compaction is not compaction or sizes != group.sources:
                # A later group may have dropped a tombstone that hides what stays in this one.
                self._compaction = None
                discard(output)
                continue
            due_ms = compaction.job.now_ms + self._config.file_delete_delay_ms
            swap_in(output, here, partial(self._doomed.add, due_ms=due_ms))
            output.index_bytes = self._config.segment_index_bytes
            self._segments[at : at + len(bases)] = [output]
            self._bases[at : at + len(bases)] = bases[:1]
            self._places.clear()
            yield

    def end_compaction(self, compaction: Compaction) -> None:
        """The swap is on the disk: what the pass covered is clean, unless the log was cut meanwhile."""
        if self._compaction is compaction and compaction.outcome is not None:
            self.cleaned_offset = compaction.outcome.cleaned_offset
            self._compaction = None

    # -- flush -------------------------------------------------------------------------------------------------------

    def begin_flush(self, now_ms: int, *, everything: bool = False) -> Flush | None:
        """What flush.messages, flush.ms and rolled segments ask to be synced now; None if nothing.

        Run it, in a thread if you like, then give it to finish_flush.
        """
        unflushed = self.log_end_offset - self.recovery_point
        if not unflushed:
            self._flushed_ms = now_ms
            return None
        due = unflushed >= self._config.flush_messages or now_ms - self._flushed_ms >= self._config.flush_ms
        if not everything and not due and self.recovery_point >= self.active.base_offset:
            return None
        files: list[File] = []
        for segment in self._unflushed_segments():
            if segment is not self.active:
                files += (segment.file, *self._save_indexes(segment))
            elif everything or due:
                files.append(segment.file)
        offset = self.log_end_offset if everything or due else self.active.base_offset
        self._flushed_end = offset
        return self._flush_of(files, offset, now_ms)

    @property
    def flush_to_come(self) -> bool:
        """Whether a flush may become due though nothing is appended any more."""
        if self.recovery_point >= self.log_end_offset:
            return False
        return self._config.flush_ms < _NEVER_MS or self.recovery_point < self.active.base_offset

    def finish_flush(self, done: Flush) -> None:
        """Moves the recovery point up to what the flush has synced; not where the log was cut meanwhile."""
        if done.cuts != self._cuts:
            return
        self.recovery_point = max(self.recovery_point, min(done.offset, self.log_end_offset))
        self._unsynced.done(done.version)
        self._flushed_ms = done.now_ms

    def flush(self, now_ms: int = 0) -> None:
        """Returns when the whole log is on the disk."""
        begun = self.begin_flush(now_ms, everything=True)
        if begun is not None:
            begun.run()
            self.finish_flush(begun)

    def abandon(self) -> None:
        """The log's directory is being deleted: a flush on its way writes nothing there any more."""
        self._unsynced.gone = True

    def begin_close(self) -> Flush | None:
        """Writes what a clean start needs and returns what must be synced for it, None if all is as it was opened."""
        as_opened = self._closed_end == self.log_end_offset and not self._unsynced
        if as_opened and not self.active.ragged and self.active.failed_sync is None:
            return None
        self.active.seal()
        if self.log_end_offset:
            self._save_snapshot()
        remove_snapshots(self._filesystem, self.directory, self._bases)
        files: list[File] = []
        for segment in self._unflushed_segments():
            files += (segment.file, *self._save_indexes(segment))
        return self._flush_of(files, self.log_end_offset, 0)

    def _flush_of(self, files: list[File], offset: int, now_ms: int) -> Flush:
        failed = self.active.failed_sync
        return flush.begin(
            self._filesystem, self.directory, files, self._unsynced, self.epochs, offset, now_ms, self._cuts, failed
        )

    def finish_close(self, done: Flush) -> None:
        """The log was synced and may be opened as clean."""
        self.finish_flush(done)
        self._closed_end = self.log_end_offset

    def close(self) -> None:
        """Flushes and leaves all files as a clean start needs them."""
        begun = self.begin_close()
        if begun is not None:
            begun.run()
            self.finish_close(begun)

    @property
    def unflushed_bytes(self) -> int:
        """Of the segments that a recovery would look into: those that end behind the recovery point."""
        return sum(segment.size_bytes for segment in self._unflushed_segments())

    def _unflushed_segments(self) -> list[Segment]:
        return self._segments[max(0, bisect_right(self._bases, self.recovery_point) - 1) :]

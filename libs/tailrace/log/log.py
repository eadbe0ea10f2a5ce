"""One partition's log on disk: append, read, look up, truncate, roll, retain, flush.

All methods are called from one thread; what may run in another (fsync, compaction) is handed out as an object whose
run() touches nothing of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import Final, overload

from tailrace.errors import ApiError, ErrorCode
from tailrace.log import append, flush
from tailrace.log.append import LogAppendResult
from tailrace.log.config import LogSettings
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.flush import Flush
from tailrace.log.local_log import PRODUCER_ID_EXPIRATION_MS, LocalLog, RecoveryResult
from tailrace.log.producers.snapshots import load_producers
from tailrace.log.read import WAIT, Missing, Needs, ReadMode, Records, WaitingReads
from tailrace.log.recovery.loader import RecoveryProgress, recover
from tailrace.log.segment.search import collect_aborted, end_within, indexes_of, position_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.valid import damaged, headers, settle
from tailrace.records.batch import Bytes, WritableBytes

__all__ = ["Log", "LogAppendResult"]

_COPIED_BYTES: Final = 65_536  # what is sent as a copy, mostly, and so may as well be read to find its end
_NOTHING: Final = b""
_ANY_EPOCH: Final = 2**31 - 1
_NEVER_MS: Final = 2**63 - 1  # flush.ms, by default


class Log(LocalLog):
    """Open with Log.open. Offsets are absolute, times are milliseconds, sizes bytes."""

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
        progress: RecoveryProgress | None = None,
    ) -> Log:
        """Opens or makes the log in directory; unless it was shut down cleanly, checks it from recovery_point on.

        compacted: it may have been, whatever its policy is now, so that offsets may be missing between segments.
        progress is for another thread, which may stop it: RecoveryStopped.
        """
        progress = progress or RecoveryProgress()
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
        log.log_start_offset = max(log_start_offset, log.segments.bases[0])
        log.cleaned_offset = min(cleaned_offset, log.log_end_offset)
        log.recovery_result = RecoveryResult(recovered.cut_bytes, recovered.epochs_mended)
        log.unsynced.flushed_ms = now_ms
        if log.log_start_offset > log.log_end_offset:
            log.reset_to(log_start_offset)
        indexes_of(log.segments.active)
        log.segments.active.measure_indexes()  # recovery did not know the topic's segment.index.bytes
        log.epochs.truncate_from_start(log.log_start_offset)
        log.producers = load_producers(filesystem, directory, log.segments, log.log_end_offset, progress.passed)
        if log.recovery_point < log.log_end_offset:
            for segment in log.unflushed_segments():
                segment.file.owe_sync()
        if clean and recovery_point == log.log_end_offset and not log.recovery_result.epochs_mended:
            log.unsynced.done(log.unsynced.version)
            log.unsynced.closed_end = log.log_end_offset
        return log

    # -- append ------------------------------------------------------------------------------------------------------

    def append(
        self, batches: Sequence[WritableBytes], leader_epoch: int, now_ms: int, *, from_client: bool = True
    ) -> list[LogAppendResult]:
        """Appends produced batches, one an item, with one write, and answers each; they are stamped in place.

        A refused batch does not stop the others. from_client=False (a coordinator's batches, markers, barriers) allows
        control batches and any size and time. What cannot be written is answered KAFKA_STORAGE_ERROR (see
        storage_error) and leaves the log as it was.
        """
        return append.append(self, batches, leader_epoch, now_ms, from_client)

    def append_replicated(self, records: Bytes, now_ms: int, max_epoch: int = _ANY_EPOCH) -> int:
        """Appends what a leader's log holds, offsets and epochs kept; the new log end offset. May raise OSError.

        CORRUPT_MESSAGE, with nothing appended from there on, for a batch that is damaged, does not follow, or is of a
        leader epoch above max_epoch, that of the leader it came from.
        """
        return append.append_replicated(self, records, now_ms, max_epoch)

    # -- read --------------------------------------------------------------------------------------------------------

    @overload
    def read(
        self,
        offset: int,
        max_bytes: int,
        max_offset: int | None = None,
        min_one: bool = True,
        mode: WaitingReads = WAIT,
    ) -> Records: ...
    @overload
    def read(
        self, offset: int, max_bytes: int, max_offset: int | None, min_one: bool, mode: ReadMode
    ) -> Records | Needs: ...
    def read(
        self, offset: int, max_bytes: int, max_offset: int | None = None, min_one: bool = True, mode: ReadMode = WAIT
    ) -> Records | Needs:
        """Whole batches from the one that holds offset, out of one segment, below max_offset (the high watermark).

        At most max_bytes, but at least one batch if min_one; empty at the end. OFFSET_OUT_OF_RANGE outside the log. In
        a mode that does not wait it may be what has to happen first (read.py).
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            message = f"offset {offset} is outside [{self.log_start_offset}, {end_offset}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        limit = end_offset if max_offset is None or max_offset > end_offset else max_offset
        if offset >= limit:
            return Records(self.segments.active.file, 0, 0)
        try:
            return self._read(offset, limit, max_bytes, min_one, mode)
        except Missing as missing:
            return missing.needs

    def _read(self, offset: int, limit: int, max_bytes: int, min_one: bool, mode: ReadMode) -> Records:
        segments = self.segments
        place = segments.places.get(offset)
        known = place is not None and place[1] < place[0].size_bytes
        if place is None or not known:
            place = self._locate(offset, mode)
        segment, start = place
        end, next_offset = self._end_in(segment, limit, mode)
        data: Bytes | None = None
        if end - start > max_bytes:
            if max_bytes <= _COPIED_BYTES:
                data = segment.read_to(start, start + max_bytes, mode)
            end, next_offset = end_within(segment, start, start + max_bytes, data or _NOTHING, mode)
            if end == start and min_one:
                end, next_offset = self._one(segment, start, mode)
        if segment.holes:
            return self._read_around_holes(offset, limit, max_bytes, min_one, mode)
        if end > start and (start < segment.valid_from or end > segment.valid_to):
            settled = settle(segment, start, end, next_offset, offset if known else -1, mode)
            if settled is None:
                return self._read(offset, limit, max_bytes, min_one, mode)
            end, next_offset = settled
        segments.remember(next_offset, segment, end)
        if data is not None and not 0 < end - start <= len(data):
            data = None
        return Records(segment.file, start, max(0, end - start), next_offset, segment is not segments.active, data)

    def _one(self, segment: Segment, start: int, mode: ReadMode) -> tuple[int, int]:
        """(end position, offset there) of the batch at start."""
        for at, header in headers(segment, start, mode):
            return at + header.size_bytes, header.next_offset
        return start, -1

    def _read_around_holes(self, offset: int, limit: int, max_bytes: int, min_one: bool, mode: ReadMode) -> Records:
        """As read, where a segment is known to be damaged."""
        self.segments.places.clear()
        segment, start = self._locate(offset, mode)
        hole = segment.hole_behind(start)
        if hole is not None and hole.position <= start:
            raise damaged(segment, hole)
        end, next_offset = self._end_in(segment, limit, mode)
        if hole is not None and hole.position < end:
            end, next_offset = hole.position, hole.first_offset
        if end - start > max_bytes:
            end, next_offset = end_within(segment, start, start + max_bytes, mode=mode)
            if end == start and min_one:
                end, next_offset = self._one(segment, start, mode)
        closed = segment is not self.segments.active
        return Records(segment.file, start, max(0, end - start), next_offset, closed)

    def _locate(self, offset: int, mode: ReadMode) -> tuple[Segment, int]:
        """The segment and position of the batch that holds offset or, where compaction left a gap, of the next."""
        for segment in self.segments[self.segments.index_of(offset) :]:
            position = position_of(segment, offset, mode)
            if position < segment.size_bytes:
                return segment, position
        return self.segments.active, self.segments.active.size_bytes

    def _end_in(self, segment: Segment, limit: int, mode: ReadMode) -> tuple[int, int]:
        """(end position, offset there) of the part of segment that lies below limit."""
        if segment is self.segments.active:
            segment_end = self.log_end_offset
        else:
            bases = self.segments.bases
            segment_end = bases[bisect_right(bases, segment.base_offset)]
        if limit >= segment_end:
            return segment.size_bytes, segment_end
        place = self.segments.places.get(limit)
        if place is not None and place[0] is segment:
            return place[1], limit
        position = position_of(segment, limit, mode)
        self.segments.remember(limit, segment, position)
        return position, limit

    # -- transactions ------------------------------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, its marker included, below the high watermark (KIP-98)."""
        transactions = self.producers.transactions
        if transactions.first_unstable_offset < high_watermark:
            transactions.replicated(high_watermark)
        first_offset = transactions.first_unstable_offset
        return high_watermark if first_offset >= high_watermark else max(first_offset, self.log_start_offset)

    def aborted_transactions(self, offset: int, piece: Records) -> list[tuple[int, int]]:
        """The (producer id, first offset) of those that may have records in a piece that was read at offset."""
        if not self.segments.has_aborted or not piece.length:
            return []
        first = self.segments.index_of(offset)
        return collect_aborted(islice(self.segments, first, None), offset, piece.next_offset)

    # -- flush -------------------------------------------------------------------------------------------------------

    def begin_flush(self, now_ms: int, *, everything: bool = False) -> Flush | None:
        """What flush.messages, flush.ms and rolled segments ask to be synced now; None if nothing.

        Run it, in a thread if you like, then give it to finish_flush.
        """
        return flush.begin(self, now_ms, everything=everything)

    @property
    def flush_to_come(self) -> bool:
        """Whether a flush may become due though nothing is appended any more."""
        if self.unsynced.snapshots:
            return True
        if self.recovery_point >= self.log_end_offset:
            return False
        return self.config.flush_ms < _NEVER_MS or self.recovery_point < self.segments.active.base_offset

    def finish_flush(self, done: Flush) -> None:
        """Moves the recovery point up to what the flush has synced; not where the log was cut meanwhile."""
        if done.cuts != self.cuts:
            return
        for file in done.snapshots:
            if file.snapshot in self.unsynced.snapshots:  # else its batches were about to go: it is on the disk
                file.finish()
                self.unsynced.snapshots.remove(file.snapshot)
        self.recovery_point = max(self.recovery_point, min(done.offset, self.log_end_offset))
        self.unsynced.done(done.version)
        self.unsynced.metadata = self.unsynced.metadata and not done.metadata
        self.unsynced.flushed_ms = done.now_ms

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
        self.segments.places.clear()
        for segment in self.segments:
            segment.close()

    def begin_close(self) -> Flush | None:
        """Writes what a clean start needs and returns what must be synced for it, None if all is as it was opened."""
        return flush.begin_close(self)

    def finish_close(self, done: Flush) -> None:
        """The log was synced and may be opened as clean."""
        self.finish_flush(done)
        self.unsynced.closed_end = self.log_end_offset

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

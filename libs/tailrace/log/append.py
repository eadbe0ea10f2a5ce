"""The append path: batches are checked, stamped in place, gathered into one write, and then made known to the log."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.limits import BadRecords
from tailrace.log.local_log import LocalLog
from tailrace.log.producers import state
from tailrace.log.producers.state import ProducerEntry
from tailrace.log.segment.segment import MAX_RELATIVE_OFFSET
from tailrace.log.segment.transaction_index import TransactionIndex
from tailrace.log.segment.transactions import MarkerBatch, read_marker
from tailrace.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    WritableBytes,
    corrupt,
    split,
    validate,
    validate_produced,
    validate_whole,
)

_LEADER_EPOCH_POSITION: Final = 12
_ANY_TIME: Final = 2**63
_NO_TIME: Final = -_ANY_TIME - 1
_pack_base_offset = Struct(">q").pack_into
_pack_leader_epoch = Struct(">i").pack_into


class LogAppendResult(NamedTuple):
    """The answer to one batch. error_code 0: its offsets are in the log, also for a duplicate (the first append's)."""

    error_code: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    error_message: str | None
    record_errors: tuple[int, ...] = ()  # which records of a refused batch are to blame (KIP-467)


def _storage_refusal(log: LocalLog, error: OSError) -> LogAppendResult:
    """What a batch that could not be written is answered."""
    log.storage_error = error
    return LogAppendResult(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(error))


def append(
    log: LocalLog, batches: Sequence[WritableBytes], leader_epoch: int, now_ms: int, from_client: bool
) -> list[LogAppendResult]:
    """As Log.append. Header fields: 1 length, 5 attributes, 6 last offset delta, 7, 8 timestamps, 9, 11 producer."""
    limits = log.limits
    check = validate_produced if from_client else validate_whole
    latest_ms = now_ms + limits.timestamp_after_max_ms
    run = PendingAppend(log, leader_epoch)
    offset = log.log_end_offset
    free, roll_ms, max_offset = run.room(now_ms)
    for buffer in batches:
        try:
            if run.failed is not None:
                raise run.failed  # or a producer's next batch would be taken before the one that is missing
            if len(buffer) < HEADER_SIZE:
                raise ApiError(ErrorCode.INVALID_RECORD, "fewer bytes than a record batch header")
            _pack_base_offset(buffer, 0, offset)
            _pack_leader_epoch(buffer, _LEADER_EPOCH_POSITION, leader_epoch)
            header = check(buffer)
            size = header[1] + LOG_OVERHEAD
            # What most batches of most topics pass; refuse() looks closely, and may find nothing.
            if from_client and (
                size > limits.max_batch_bytes
                or header[8] > latest_ms
                or header[5] & LOG_APPEND_TIME
                or limits.every_record
            ):
                limits.refuse(buffer, header, now_ms)
            stored = buffer
            if limits.rewrites:
                stored, header, size = limits.rewrite(buffer, header, now_ms, from_client)
            if size > free or header[8] > roll_ms or offset + header[6] > max_offset:
                run.write()
                if run.failed is not None:
                    raise run.failed
                log.roll()
                free, roll_ms, max_offset = run.room(now_ms)
            if header[9] >= 0:
                if not from_client:
                    run.trust(header, stored)
                elif run.repeats(header):
                    continue
        except ApiError as refused:
            blamed = refused.indices if isinstance(refused, BadRecords) else ()
            run.results.append(LogAppendResult(refused.code, -1, -1, -1, refused.message, blamed))
            continue
        except OSError as error:
            run.failed = error
            run.results.append(_storage_refusal(log, error))
            continue
        run.buffers.append(stored)
        run.headers.append(header)
        last_offset = offset + header[6]
        time_ms = now_ms if limits.log_append_time else -1
        run.results.append(tuple.__new__(LogAppendResult, (0, offset, last_offset, time_ms, None, ())))
        offset = last_offset + 1
        free -= size
    run.write()
    return run.results


def append_replicated(log: LocalLog, records: Bytes, now_ms: int, max_epoch: int) -> int:
    """As Log.append_replicated."""
    _begin_within(log, records)
    views: list[memoryview] = []
    headers: list[BatchHeader] = []
    free, roll_ms, max_offset = PendingAppend(log, -1).room(now_ms)
    next_offset, epoch = log.log_end_offset, -1
    try:
        for view in split(records):
            header = validate(view)
            refuse_strange(header, next_offset, epoch, max_epoch)
            if len(view) > free or header.max_timestamp > roll_ms or header.last_offset > max_offset:
                _write_replicated(log, views, headers)
                views, headers = [], []
                # What compaction has taken from the leader's log may be more offsets than a segment can hold.
                far = header.last_offset - next_offset > MAX_RELATIVE_OFFSET
                log.roll(header.base_offset if far else next_offset)
                free, roll_ms, max_offset = PendingAppend(log, -1).room(now_ms)
            views.append(view)
            headers.append(header)
            next_offset, epoch = header.next_offset, header.partition_leader_epoch
            free -= len(view)
    except ApiError:
        # What came before the damage is sound, but for the last: where two do not follow, either may be wrong.
        _write_replicated(log, views[:-1], headers[:-1])
        raise
    _write_replicated(log, views, headers)
    return log.log_end_offset


def _begin_within(log: LocalLog, records: Bytes) -> None:
    """An empty log begins where the leader's first batch does, if that batch holds the log's start.

    The leader's log start may lie within a batch (DeleteRecords), of which nothing can be left out. As in Kafka the log
    start goes back with it, until the leader's is heard.
    """
    if log.log_end_offset != log.log_start_offset or log.size_bytes or not len(records):
        return
    first = validate(records)
    if 0 <= first.base_offset < log.log_end_offset <= first.last_offset:
        log.reset_to(first.base_offset)


def refuse_strange(header: BatchHeader, next_offset: int, epoch: int, max_epoch: int) -> None:
    """CORRUPT_MESSAGE for what lies outside the CRC of a replicated batch and cannot be: base offset, leader epoch."""
    if not next_offset <= header.base_offset <= header.last_offset:
        raise corrupt(f"replicated offset {header.base_offset} is below the log end {next_offset}")
    if not epoch <= header.partition_leader_epoch <= max_epoch:
        raise corrupt(f"replicated offset {header.base_offset} has leader epoch {header.partition_leader_epoch}")


def _write_replicated(log: LocalLog, views: list[memoryview], headers: list[BatchHeader]) -> None:
    """One write for what goes into one segment."""
    if not headers:
        return
    log.segments.active.append(views, headers)
    for header, view in zip(headers, views, strict=True):
        if header.partition_leader_epoch > log.epochs.latest:
            log.note_epoch(header.partition_leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            note_producer(log, header, view)
    log.log_end_offset = headers[-1].next_offset
    if log.producers.evicted:
        log.count_evicted()


def note_producer(log: LocalLog, header: BatchHeader, data: Bytes) -> None:
    """Takes up what a batch in the active segment says of its producer, its transaction and what was aborted."""
    marker = read_marker(data, header) if header.is_control else None
    aborted = log.producers.apply(header, marker)
    if aborted is not None:
        active = log.segments.active
        if active.aborted is None:
            active.aborted = TransactionIndex()
        active.aborted.append(aborted)
        log.segments.has_aborted = True


class PendingAppend:
    """The batches that go out with the next write; nothing of them is known to the log before it succeeds."""

    __slots__ = ("_leader_epoch", "_log", "_staged", "_transactional", "buffers", "failed", "headers", "results")

    def __init__(self, log: LocalLog, leader_epoch: int) -> None:
        self._log = log
        self._leader_epoch = leader_epoch
        self._staged: dict[int, ProducerEntry] = {}
        self._transactional = False  # whether any of the batches is a transaction's
        self.buffers: list[WritableBytes] = []
        self.headers: list[BatchHeader] = []
        self.results: list[LogAppendResult] = []
        self.failed: OSError | None = None  # after the first failed write the rest is refused

    def room(self, now_ms: int) -> tuple[int, int, int]:
        """(bytes, newest timestamp, last offset) that the active segment takes before it must roll."""
        active, limits = self._log.segments.active, self._log.limits
        max_offset = active.base_offset + MAX_RELATIVE_OFFSET
        if not active.size_bytes:
            active.begun_ms = now_ms
            return limits.segment_bytes, _ANY_TIME, max_offset
        free = -1 if active.full or limits.index_takes_nothing else limits.segment_bytes - active.size_bytes
        if active.first_timestamp < 0:
            return free, _ANY_TIME if limits.waits(active, now_ms) else _NO_TIME, max_offset
        return free, active.first_timestamp + limits.roll_after_ms(active), max_offset

    def repeats(self, header: BatchHeader) -> bool:
        """Whether the batch was appended before, and is answered with that; refusals as state.check."""
        producer_id = header[9]
        entry = self._staged.get(producer_id) or self._log.producers.entries.get(producer_id)
        if header[11] < 0:
            message = f"batch of producer {producer_id} has sequence {header[11]}"
            raise ApiError(ErrorCode.INVALID_RECORD, message)
        if header[5] & TRANSACTIONAL:
            # What was staged before in this run has begun the transaction, and used the verification up.
            asked = None if producer_id in self._staged else self._log.producers.verifications.get(producer_id)
            repeated = state.check_transactional(entry, header, asked)
        else:
            repeated = state.check(entry, header)
        if repeated is None:
            self._staged[producer_id] = state.extended(entry, header)
            if header[5] & TRANSACTIONAL:
                self._transactional = True
            return False
        time_ms = repeated.timestamp if self._log.limits.log_append_time else -1
        self.results.append(LogAppendResult(0, repeated.first_offset, repeated.last_offset, time_ms, None))
        return True

    def trust(self, header: BatchHeader, buffer: WritableBytes) -> None:
        """Stages a batch of a coordinator, whose sequence numbers say nothing; a marker may be refused."""
        producer_id = header[9]
        entry = self._staged.get(producer_id) or self._log.producers.entries.get(producer_id)
        marker = read_marker(buffer, header) if header[5] & CONTROL else None
        if marker is not None:
            version = buffer.transaction_version if type(buffer) is MarkerBatch else 0
            state.check_marker(entry, header, marker, version)
            self._staged[producer_id] = state.ended(entry, header, marker)
        elif header[11] >= 0:
            self._staged[producer_id] = state.extended(entry, header)
        if header[5] & TRANSACTIONAL:
            self._transactional = True

    def write(self) -> None:
        """Writes what was gathered with one call and lets the log know of it."""
        headers = self.headers
        if not headers:
            return
        log = self._log
        try:
            log.segments.active.append(self.buffers, headers)
        except OSError as error:
            self.failed = error
            refusal = _storage_refusal(log, error)
            # Everything that was promised from here on, with the duplicates of what is now not written.
            first = log.log_end_offset
            self.results = [refusal if answer.base_offset >= first else answer for answer in self.results]
        else:
            if self._transactional:
                for header, buffer in zip(headers, self.buffers, strict=True):
                    note_producer(log, header, buffer)
            elif self._staged:
                log.producers.take(self._staged)
            last = headers[-1]
            log.log_end_offset = last[0] + last[6] + 1
            if self._leader_epoch > log.epochs.latest:
                log.note_epoch(self._leader_epoch, headers[0][0])
            if log.producers.evicted:
                log.count_evicted()
        self.buffers, self.headers, self._staged, self._transactional = [], [], {}, False

"""Producers of one log (KIP-98): epoch, last five batches and open transaction each, and the snapshot's bytes. Pure.

A decision (check, check_marker) reads an entry and refuses, finds a duplicate, or lets the batch pass; after the
append, extended() or ended() gives the entry that holds the batch. Entries are immutable, so an append that fails
leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.producers.open_transactions import OpenTransactions
from tailrace.log.producers.verification import Verification, Verifications
from tailrace.log.segment.transactions import AbortedTransaction, Marker
from tailrace.records.batch import LAST_PRODUCER_EPOCH, TRANSACTIONAL, BatchHeader, checksum, corrupt
from tailrace.records.markers import ABORT

EPOCH_BUMPS_FROM: Final = 2  # transaction.version whose markers carry an epoch of their own (KIP-890, KIP-1228)
MAX_PRODUCER_IDS: Final = 20_000  # of one log, beside those with an open transaction
_PASSED_OVER: Final = 100  # of these, where room is made
RETAINED_BATCHES: Final = 5  # as many as max.in.flight.requests.per.connection allows an idempotent producer
MAX_SEQUENCE: Final = 2**31 - 1
_PATIENCE_MS: Final = 600_000  # as long as Kafka may take to look: its producer.id.expiration.check.interval.ms

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEADER: Final = Struct(">hIi")  # version, CRC-32C of all that follows it, number of entries
_SNAPSHOT_CRC_END: Final = 6
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")


class BatchMetadata(NamedTuple):
    """One remembered batch; its first offset is last_offset - offset_delta."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """One producer's last batches, oldest first. No batch: only the epoch is known. No open transaction: offset -1."""

    producer_epoch: int
    batches: tuple[BatchMetadata, ...]
    last_timestamp: int
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1


def last_sequence(base_sequence: int, offset_delta: int) -> int:
    """The sequence number offset_delta further; it wraps to 0 after 2^31 - 1."""
    return (base_sequence + offset_delta) & MAX_SEQUENCE


def check(entry: ProducerEntry | None, header: BatchHeader) -> BatchMetadata | None:
    """The batch this one repeats, or None if it comes next; OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_PRODUCER_EPOCH."""
    if entry is None:
        return None  # an unknown producer may begin anywhere: its state may have expired here (KIP-360)
    epoch, batches = entry[0], entry[1]
    if header.producer_epoch < epoch:
        message = f"producer {header.producer_id} has epoch {epoch} and sent {header.producer_epoch}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
    base_sequence = header.base_sequence
    if header.producer_epoch > epoch:
        if base_sequence != 0:
            raise _out_of_order(header, -1)
        return _refuse_outside_transaction(entry, header)
    if not batches:  # a marker began this epoch, and nothing was written in it
        if base_sequence != 0:
            raise _out_of_order(header, -1)
        return _refuse_outside_transaction(entry, header)
    expected = (batches[-1][0] + 1) & MAX_SEQUENCE
    if base_sequence == expected:
        return None if entry[4] < 0 else _refuse_outside_transaction(entry, header)
    final = last_sequence(base_sequence, header.last_offset_delta)
    for batch in batches:
        if batch[0] == final and batch[2] == header.last_offset_delta:
            return batch
    raise _out_of_order(header, batches[-1].last_sequence)


def is_ongoing(entry: ProducerEntry | None, producer_epoch: int) -> bool:
    """Whether a batch of this epoch would go on with the transaction that its producer has open in the log."""
    return entry is not None and entry.current_txn_first_offset >= 0 and entry.producer_epoch == producer_epoch


def check_transactional(
    entry: ProducerEntry | None, header: BatchHeader, verification: Verification | None
) -> BatchMetadata | None:
    """As check, for a client's batch in a transaction, in Kafka's order: INVALID_TXN_STATE unless one is open or
    the coordinator was asked under this verification (KIP-890).
    """
    repeated = None if entry is None else repeated_batch(entry, header)
    if repeated is not None:
        return repeated
    if not is_ongoing(entry, header.producer_epoch):
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return check(entry, header)
        if verification is None or not verification.is_verified:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
    if verification is not None:
        # An earlier batch was refused while it asked, and has to come first.
        unknown = entry is None or not entry.batches
        if header.base_sequence > (0 if unknown and verification.supports_epoch_bump else verification.lowest_sequence):
            raise _out_of_order(header, -1 if entry is None or not entry.batches else entry.batches[-1].last_sequence)
    return check(entry, header)


def repeated_batch(entry: ProducerEntry, header: BatchHeader) -> BatchMetadata | None:
    """The remembered batch of these sequence numbers."""
    if entry.producer_epoch != header.producer_epoch:
        return None
    final = last_sequence(header.base_sequence, header.last_offset_delta)
    for batch in entry.batches:
        if batch.last_sequence == final and batch.offset_delta == header.last_offset_delta:
            return batch
    return None


def _refuse_outside_transaction(entry: ProducerEntry, header: BatchHeader) -> BatchMetadata | None:
    """None, or INVALID_TXN_STATE for a batch outside of the transaction that its producer has open."""
    if entry.current_txn_first_offset >= 0 and not header.is_transactional:
        message = f"producer {header.producer_id} has a transaction open since {entry.current_txn_first_offset}"
        raise ApiError(ErrorCode.INVALID_TXN_STATE, message)
    return None


def check_marker(
    entry: ProducerEntry | None, header: BatchHeader, marker: Marker, transaction_version: int = 0
) -> None:
    """INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for what an older coordinator or attempt sends.

    In transaction version 2 each marker has an epoch above the producer's, so that a late one of an earlier transaction
    cannot end a later one (KIP-1228). It may come again while nothing was written since; the last epoch there is, too.
    """
    if entry is None:
        return
    epoch = header.producer_epoch
    late = transaction_version >= EPOCH_BUMPS_FROM and epoch == entry.producer_epoch
    late = late and entry.current_txn_first_offset >= 0 and epoch != LAST_PRODUCER_EPOCH
    if epoch < entry.producer_epoch or late:
        message = f"producer {header.producer_id} has epoch {entry.producer_epoch}, the marker {header.producer_epoch}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
    if marker.coordinator_epoch < entry.coordinator_epoch:
        message = f"a coordinator of epoch {entry.coordinator_epoch} wrote before, now {marker.coordinator_epoch}"
        raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)


def _out_of_order(header: BatchHeader, last: int) -> ApiError:
    message = f"producer {header.producer_id} sent sequence {header.base_sequence} after {last}"
    return ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)


def extended(entry: ProducerEntry | None, header: BatchHeader) -> ProducerEntry:
    """The entry after this batch was appended; as in Kafka its producer was heard at the batch's own time."""
    base_offset, delta, timestamp, epoch = header[0], header[6], header[8], header[10]
    last = (header[11] + delta) & MAX_SEQUENCE
    batch = tuple.__new__(BatchMetadata, (last, base_offset + delta, delta, timestamp))  # skips the keyword handling
    if header[5] & TRANSACTIONAL:
        return _in_a_transaction(entry, header, base_offset, batch)
    if entry is None:
        return ProducerEntry(epoch, (batch,), timestamp)
    batches = (*entry[1][1 - RETAINED_BATCHES :], batch) if entry[0] == epoch else (batch,)
    return tuple.__new__(ProducerEntry, (epoch, batches, timestamp, entry[3], entry[4]))


def _in_a_transaction(
    entry: ProducerEntry | None, header: BatchHeader, base_offset: int, batch: BatchMetadata
) -> ProducerEntry:
    """As extended; the first batch begins the transaction. Without a sequence number no batch is remembered."""
    if entry is None:
        entry = ProducerEntry(header.producer_epoch, (), batch.timestamp)
    batches = entry.batches if entry.producer_epoch == header.producer_epoch else ()
    if header.base_sequence >= 0:
        batches = (*batches[1 - RETAINED_BATCHES :], batch)
    first_offset = base_offset if entry.current_txn_first_offset < 0 else entry.current_txn_first_offset
    return ProducerEntry(header.producer_epoch, batches, batch.timestamp, entry.coordinator_epoch, first_offset)


def ended(entry: ProducerEntry | None, header: BatchHeader, marker: Marker) -> ProducerEntry:
    """The entry after this marker: its epoch counts from here on, and no transaction is open."""
    batches = entry.batches if entry is not None and entry.producer_epoch == header.producer_epoch else ()
    return ProducerEntry(header.producer_epoch, batches, header.max_timestamp, marker.coordinator_epoch, -1)


class ProducerState:
    """All producers of one log, after the last batch that was applied; `entries` has the longest idle one first.

    Above MAX_PRODUCER_IDS the longest idle ones are forgotten as if they had expired.
    """

    __slots__ = ("_quiet", "entries", "evicted", "transactions", "verifications")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.evicted = 0  # producers that went because there were too many, and that were not counted yet
        self._quiet: dict[int, tuple[ProducerEntry, int]] = {}  # who may expire, as it was then, and since when
        self.transactions = OpenTransactions()
        self.verifications = Verifications()

    def apply(self, header: BatchHeader, marker: Marker | None = None) -> AbortedTransaction | None:
        """Takes up a batch that is in the log, nothing is refused; the transaction that it says was aborted.

        marker is what a control batch holds. One that ends a transaction without a record leaves no trace in an index.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        entry = self.entries.get(producer_id)
        if marker is not None:
            self.verifications.ended(producer_id, header.producer_epoch)
            self._put(producer_id, ended(entry, header, marker))
            return self._end(header, -1 if entry is None else entry.current_txn_first_offset, marker)
        if header.is_control or (header.base_sequence < 0 and not header.is_transactional):
            return None
        entry = extended(entry, header)
        self._put(producer_id, entry)
        if header.is_transactional:
            self.verifications.clear(producer_id)
            self.transactions.begin(producer_id, entry.current_txn_first_offset)
        return None

    def take(self, entries: dict[int, ProducerEntry]) -> None:
        """Takes up what extended() gave for batches outside of transactions."""
        for producer_id, entry in entries.items():
            self._put(producer_id, entry)

    def _put(self, producer_id: int, entry: ProducerEntry) -> None:
        entries = self.entries
        entries.pop(producer_id, None)  # the last is the one that wrote last
        entries[producer_id] = entry
        if len(entries) > MAX_PRODUCER_IDS:
            self._make_room()

    def evict_excess(self) -> None:
        """Forgets the longest idle ones of a snapshot that another broker wrote."""
        excess = max(0, len(self.entries) - MAX_PRODUCER_IDS)
        idle = (one for one, entry in self.entries.items() if entry.current_txn_first_offset < 0)
        for producer_id in list(islice(idle, excess)):
            del self.entries[producer_id]

    def _make_room(self) -> None:
        """Forgets a hundredth at a time: the first of a dict is found the slower the more were taken from its front."""
        left = max(1, MAX_PRODUCER_IDS // 100)
        for producer_id, entry in list(islice(self.entries.items(), min(left + _PASSED_OVER, len(self.entries) - 1))):
            del self.entries[producer_id]
            if entry.current_txn_first_offset >= 0:
                self.entries[producer_id] = entry  # its transaction is open: it counts as one that wrote just now
                continue
            self.evicted += 1
            left -= 1
            if not left:
                return

    def _end(self, header: BatchHeader, first_offset: int, marker: Marker) -> AbortedTransaction | None:
        if first_offset < 0:
            return None
        stable = self.transactions.end(first_offset, header.base_offset)
        if marker.kind != ABORT:
            return None
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, stable)

    def open_transactions(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Producer id and entry of each producer with an open transaction, the oldest transaction first."""
        return ((producer_id, self.entries[producer_id]) for producer_id in self.transactions.producers())

    def late_transactions(self, now_ms: int, late_ms: int) -> int:
        """How many transactions are open whose producer wrote nothing for more than late_ms (KIP-664)."""
        return sum(now_ms - entry.last_timestamp > late_ms for _, entry in self.open_transactions())

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that were quiet for producer.id.expiration.ms and have no transaction open.

        What says so are their records' own times, which are old where old records are copied, and a clock that somebody
        may set. So nobody goes who wrote anything in the ten minutes before, or its next retry would be a new record.
        """
        quiet: dict[int, tuple[ProducerEntry, int]] = {}
        for producer_id, entry in self.entries.items():
            if now_ms - entry.last_timestamp >= expiration_ms and entry.current_txn_first_offset < 0:
                seen, since_ms = self._quiet.get(producer_id, (None, now_ms))
                quiet[producer_id] = (entry, min(since_ms, now_ms) if seen is entry else now_ms)
        patience_ms = min(expiration_ms, _PATIENCE_MS)
        for producer_id in [one for one, (_, since_ms) in quiet.items() if now_ms - since_ms >= patience_ms]:
            del self.entries[producer_id], quiet[producer_id]
        self._quiet = quiet
        self.verifications.expire(now_ms, expiration_ms)


def encode_snapshot(entries: Mapping[int, ProducerEntry]) -> bytes:
    """The content of a .snapshot file; of every producer only its last batch is kept, as in Kafka."""
    content = bytearray(_SNAPSHOT_HEADER.size)
    for producer_id, entry in entries.items():
        last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, entry.last_timestamp)
        content += _SNAPSHOT_ENTRY.pack(
            producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    _SNAPSHOT_HEADER.pack_into(content, 0, _SNAPSHOT_VERSION, 0, len(entries))
    crc = checksum(memoryview(content)[_SNAPSHOT_CRC_END:])
    _SNAPSHOT_HEADER.pack_into(content, 0, _SNAPSHOT_VERSION, crc, len(entries))
    return bytes(content)


def decode_snapshot(content: bytes) -> ProducerState:
    """The state in a .snapshot file; CORRUPT_MESSAGE if it is damaged."""
    if len(content) < _SNAPSHOT_HEADER.size:
        raise corrupt("the producer snapshot is cut")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(content)
    body = memoryview(content)[_SNAPSHOT_HEADER.size :]
    if version != _SNAPSHOT_VERSION or len(body) != count * _SNAPSHOT_ENTRY.size:
        raise corrupt("the producer snapshot has another layout")
    if checksum(memoryview(content)[_SNAPSHOT_CRC_END:]) != crc:
        raise corrupt("the producer snapshot has a wrong CRC-32C")
    state = ProducerState()
    for producer_id, epoch, sequence, offset, delta, timestamp, coordinator, txn in _SNAPSHOT_ENTRY.iter_unpack(body):
        batches = (BatchMetadata(sequence, offset, delta, timestamp),) if sequence >= 0 else ()
        state.entries[producer_id] = ProducerEntry(epoch, batches, timestamp, coordinator, txn)
    state.evict_excess()
    began = [(entry.current_txn_first_offset, producer_id) for producer_id, entry in state.entries.items()]
    for first_offset, producer_id in sorted(began):
        if first_offset >= 0:
            state.transactions.begin(producer_id, first_offset)
    return state

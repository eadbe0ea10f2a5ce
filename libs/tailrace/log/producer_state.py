"""Idempotent producers of one log (KIP-98): epoch and last five batches each, and the snapshot file's bytes. Pure.

A decision (check) reads an entry and refuses, finds a duplicate, or lets the batch pass; after the append, extended()
gives the entry that holds the batch. Entries are immutable, so an append that fails leaves nothing behind.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader, checksum, corrupt

RETAINED_BATCHES: Final = 5  # as many as max.in.flight.requests.per.connection allows an idempotent producer
MAX_SEQUENCE: Final = 2**31 - 1

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
    """One producer's last batches, oldest first. No batch: only the epoch is known."""

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
        return None
    if not batches:
        return None
    expected = (batches[-1][0] + 1) & MAX_SEQUENCE
    if base_sequence == expected:
        return None
    final = last_sequence(base_sequence, header.last_offset_delta)
    for batch in batches:
        if batch[0] == final and batch[2] == header.last_offset_delta:
            return batch
    raise _out_of_order(header, batches[-1].last_sequence)


def _out_of_order(header: BatchHeader, last: int) -> ApiError:
    message = f"producer {header.producer_id} sent sequence {header.base_sequence} after {last}"
    return ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)


def extended(entry: ProducerEntry | None, header: BatchHeader, base_offset: int, timestamp: int) -> ProducerEntry:
    """The entry after this batch was appended at base_offset."""
    delta, epoch = header[6], header[10]
    last = (header[11] + delta) & MAX_SEQUENCE
    batch = tuple.__new__(BatchMetadata, (last, base_offset + delta, delta, timestamp))  # skips the keyword handling
    if entry is None or entry[0] != epoch:
        return ProducerEntry(epoch, (batch,), timestamp)
    batches = (*entry[1][1 - RETAINED_BATCHES :], batch)
    return tuple.__new__(ProducerEntry, (epoch, batches, timestamp, entry[3], entry[4]))


class ProducerState:
    """All producers of one log, as of map_end_offset."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}

    def apply(self, header: BatchHeader) -> None:
        """Replays a batch that is in the log; nothing is refused."""
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        entry = self.entries.get(header.producer_id)
        self.entries[header.producer_id] = extended(entry, header, header.base_offset, header.max_timestamp)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that were quiet for producer.id.expiration.ms and have no transaction open."""
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            if now_ms - entry.last_timestamp >= expiration_ms and entry.current_txn_first_offset < 0
        ]
        for producer_id in gone:
            del self.entries[producer_id]


def encode_snapshot(state: ProducerState) -> bytes:
    """The content of a .snapshot file; of every producer only its last batch is kept, as in Kafka."""
    content = bytearray(_SNAPSHOT_HEADER.size)
    for producer_id, entry in state.entries.items():
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
    _SNAPSHOT_HEADER.pack_into(content, 0, _SNAPSHOT_VERSION, 0, len(state.entries))
    crc = checksum(memoryview(content)[_SNAPSHOT_CRC_END:])
    _SNAPSHOT_HEADER.pack_into(content, 0, _SNAPSHOT_VERSION, crc, len(state.entries))
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
    return state

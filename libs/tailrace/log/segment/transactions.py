"""The aborted transactions of one segment: the .txnindex file's bytes, and what a control batch's marker says. Pure.

An entry is written when an abort marker ends a transaction. It names the last stable offset after that, which tells a
reader how far on it must look: a later transaction's records may lie before an earlier one's end.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.records.batch import BatchHeader, Bytes
from tailrace.records.markers import ABORT, COMMIT, MARKER_KEY, MARKER_VALUE, marker_record
from tailrace.records.record import Record, build, iterate

_ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
_VERSION: Final = 0


class DamagedIndex(ValueError):
    """Bytes that are no transaction index."""


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from first_offset to its marker at last_offset, nobody may see as committed."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(transactions: Iterable[AbortedTransaction]) -> bytes:
    """The entries as they are in the file."""
    return b"".join([_ENTRY.pack(_VERSION, *transaction) for transaction in transactions])


def decode(content: Bytes) -> list[AbortedTransaction]:
    """The entries of a file; DamagedIndex where one cannot be true."""
    if len(content) % ENTRY_SIZE:
        raise DamagedIndex(f"{len(content)} bytes are no whole number of entries")
    found: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(content):
        entry = AbortedTransaction(*fields)
        if version != _VERSION:
            raise DamagedIndex(f"entry {len(found)} has version {version}")
        if entry.producer_id < 0 or not 0 <= entry.first_offset <= entry.last_offset:
            raise DamagedIndex(f"entry {len(found)} goes from {entry.first_offset} to {entry.last_offset}")
        if found and entry.last_offset <= found[-1].last_offset:
            raise DamagedIndex(f"entry {len(found)} ends before the one before it")
        found.append(entry)
    return found


class Marker(NamedTuple):
    """What ends a transaction: kind is ABORT or COMMIT; the epoch is the coordinator's that wrote it."""

    kind: int
    coordinator_epoch: int


class MarkerBatch(bytearray):
    """A marker's batch on its way into a log, which checks it as its transaction version asks (KIP-1228)."""

    transaction_version = 0


def marker_batch(
    producer_id: int, producer_epoch: int, marker: Marker, now_ms: int, transaction_version: int = 0
) -> MarkerBatch:
    """The control batch that ends a producer's transaction in one partition."""
    key, value = marker_record(marker.kind == COMMIT, marker.coordinator_epoch)
    record = Record(timestamp=now_ms, key=key, value=value)
    written = MarkerBatch(
        build([record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)
    )
    written.transaction_version = transaction_version
    return written


def read_marker(batch: Bytes, header: BatchHeader) -> Marker | None:
    """The marker in a control batch, None for any other batch."""
    if not (header.is_control and header.is_transactional and header.record_count):
        return None
    try:
        record = next(iterate(batch))
    except ApiError:
        return None
    key, value = record.key or b"", record.value or b""
    if len(key) < MARKER_KEY.size:
        return None
    kind: int = MARKER_KEY.unpack_from(key)[1]
    epoch: int = MARKER_VALUE.unpack_from(value)[1] if len(value) >= MARKER_VALUE.size else -1
    return Marker(kind, epoch) if kind in (ABORT, COMMIT) else None


def marker_type(batch: Bytes, header: BatchHeader) -> int | None:
    """ABORT or COMMIT for a transaction's marker, None for any other batch."""
    marker = read_marker(batch, header)
    return None if marker is None else marker.kind

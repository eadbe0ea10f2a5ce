"""What of a batch stays in a compacted log, as Kafka's cleaner decides it. Pure: bytes in, bytes out.

Tombstones and the markers of transactions of which nothing is left get a delete horizon in their batch by the pass
that first meets them (KIP-534: an attribute bit, and the base timestamp says when) and go when it has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.compaction.transactions import Markers, TransactionScan
from tailrace.log.segment.transactions import marker_type
from tailrace.records.batch import BatchHeader, Bytes, without_records
from tailrace.records.entries import RecordEntry, rebuilt, rebuilt_with_horizon, select
from tailrace.records.markers import ABORT
from tailrace.records.record import iterate, rebuild, with_delete_horizon

_SHORT_BYTES: Final = 16
_DIGEST_BYTES: Final = _SHORT_BYTES + 1  # so that no short key is the digest of a long one
BYTES_PER_KEY: Final = 160  # measured: 116 in the table, up to 160 while it grows


class LastRecord(NamedTuple):
    """What an active producer did last: the batch that says so stays, if without records. No data: offset -1."""

    last_data_offset: int
    producer_epoch: int


class OffsetMap:
    """From a key to its latest offset, with a bound on its keys. Long keys are kept as digests, 17 bytes each."""

    __slots__ = ("_latest", "max_keys")

    def __init__(self, max_keys: int) -> None:
        self.max_keys = max_keys
        self._latest: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def takes(self, count: int) -> bool:
        """Whether so many more keys surely fit; an empty map takes any one batch, or a pass might never get on."""
        return not self._latest or len(self._latest) + count <= self.max_keys

    def put(self, key: bytes, offset: int) -> None:
        if len(key) > _SHORT_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        self._latest[key] = offset

    def get(self, key: bytes) -> int:
        """The key's latest offset, -1 if the map has not met it."""
        if len(key) > _SHORT_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        return self._latest.get(key, -1)


class Retention(NamedTuple):
    """What a pass knows when it decides. Nothing from cleaned_offset on is touched: the map does not cover it."""

    latest: OffsetMap
    cleaned_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    last_records: Mapping[int, LastRecord]
    transactions: TransactionScan
    markers: Markers

    def of(self, header: BatchHeader, data: bytes | memoryview) -> Bytes | None:
        """What stays of a batch: itself, fewer records, only its header, or nothing. Call it in the log's order."""
        if header.base_offset >= self.cleaned_offset:
            if header.is_control and marker_type(data, header) == ABORT:
                self.markers.kept_aborts.add(header.last_offset)
            return data
        kept = self._of_control(header, data) if header.is_control else self._of_data(header, data)
        if kept is None and self._must_stay(header):
            return data if not header.record_count else without_records(header)
        return kept

    def _must_stay(self, header: BatchHeader) -> bool:
        """The last batch of an active producer, for its sequence number or epoch; and of the pass, for its offset."""
        if header.next_offset == self.end_offset:
            return True
        last = self.last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _expired(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self.now_ms

    def _of_control(self, header: BatchHeader, data: bytes | memoryview) -> Bytes | None:
        marker = marker_type(data, header)
        done = self.markers.is_done(header, marker)
        if not header.record_count or (done and self._expired(header)):
            return None
        if marker == ABORT:
            self.markers.kept_aborts.add(header.last_offset)
        if done and not header.has_delete_horizon:
            return rebuild(with_delete_horizon(header, self._horizon_ms()), list(iterate(data)))
        return data

    def _of_data(self, header: BatchHeader, data: bytes | memoryview) -> Bytes | None:
        if header.is_transactional:
            self.markers.data(header.producer_id)
        if not header.record_count or self.transactions.is_aborted(header):
            return None
        try:
            kept = select(header, data, self.stays(header))
        except ApiError:
            return data  # a producer filled it with nonsense before the topic was a compacted one
        if not kept.record_count:
            return None
        if kept.tombstones and not header.has_delete_horizon:
            return rebuilt_with_horizon(header, kept, self._horizon_ms())
        return data if kept.record_count == header.record_count else rebuilt(header, kept)

    def stays(self, header: BatchHeader) -> Callable[[RecordEntry], bool]:
        """Which records of the batch stay. As in Kafka, one without a key has no place in a compacted log."""
        base, latest, expired = header.base_offset, self.latest.get, self._expired(header)

        def stays_here(entry: RecordEntry) -> bool:
            return entry[2] is not None and base + entry[0] >= latest(entry[2]) and not (expired and entry[3])

        return stays_here

    def _horizon_ms(self) -> int:
        return self.now_ms + self.delete_retention_ms

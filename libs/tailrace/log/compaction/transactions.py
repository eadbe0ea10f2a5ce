"""Transactions as the cleaner sees them: which batches an abort took back, and when a marker has nothing left to mark.

Kafka takes the aborted ones from the transaction index; here they are read from the batches' headers, so that a lost
index changes nothing. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from tailrace.log.segment.transactions import DamagedIndex, decode, encode
from tailrace.records.batch import BatchHeader
from tailrace.records.markers import ABORT


class TransactionScan:
    """Reads batches in order and finds the aborted transactions, and those that have not ended."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # producer id -> offset of its transaction's first batch
        self.aborted: dict[int, list[tuple[int, int]]] = {}  # producer id -> (first offset, marker's offset), in order

    def see(self, header: BatchHeader, marker: int | None) -> None:
        """Takes up one transactional batch; marker is its marker_type, None for data."""
        if not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
        elif marker is not None:
            first = self.open.pop(header.producer_id, None)
            if marker == ABORT and first is not None:
                self.aborted.setdefault(header.producer_id, []).append((first, header.last_offset))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to a transaction that was aborted."""
        if not header.is_transactional or not self.aborted:
            return False
        ranges = self.aborted.get(header.producer_id, ())
        at = bisect_right(ranges, header.base_offset, key=lambda pair: pair[0]) - 1
        return at >= 0 and header.base_offset < ranges[at][1]


class Markers:
    """Which transactions left batches behind, as the copy goes through the log: their markers must stay."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.kept_aborts: set[int] = set()  # offsets of abort markers that stay: their index entries do too

    def data(self, producer_id: int) -> None:
        """A transactional batch of the producer was in the log before this pass."""
        self._seen.add(producer_id)

    def is_done(self, header: BatchHeader, marker: int | None) -> bool:
        """Whether nothing of the marker's transaction was left; never for a control batch that is no marker."""
        if not header.record_count:
            return True  # cleaned before; only the producer's epoch was kept
        if marker is None:
            return False
        done = header.producer_id not in self._seen
        self._seen.discard(header.producer_id)
        return done


def retained_index(sources: Iterable[bytes], kept_aborts: set[int]) -> bytes:
    """The transaction index of a cleaned segment: those entries of its sources whose abort marker stays.

    A consumer that was told of an abort drops the producer's records until it meets the marker. A damaged index is
    left out, as an absent one is: whoever needs it has the batches.
    """
    kept = []
    for content in sources:
        try:
            kept += [entry for entry in decode(content) if entry.last_offset in kept_aborts]
        except DamagedIndex:
            continue
    return encode(kept)

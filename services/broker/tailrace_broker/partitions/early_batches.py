"""Batches that come to a new leader without the one before them, which the leader before has refused. Pure.

The refused one may still be on its way back to its client's queue when librdkafka sends the next one here. So what
produce/refused_batches.py says of one connection holds, for all of them, for what comes in the first minute of a
leadership, and for what a producer sends first to a leader.
"""

from __future__ import annotations

from typing import Final

from tailrace.log.producers.state import MAX_SEQUENCE, ProducerEntry
from tailrace.records.batch import BatchHeader

_MOST_EARLY: Final = 10_000
_NEW_MS: Final = 60_000


class EarlyBatches:
    """Of one leadership: the batches that came without the one before them."""

    __slots__ = ("_seen", "_since_ms", "_start_offset")

    def __init__(self, start_offset: int, since_ms: float) -> None:
        """start_offset: where the leader epoch begins."""
        self._start_offset = start_offset
        self._since_ms = since_ms
        self._seen: set[tuple[int, int, int]] = set()

    def comes_early(self, entry: ProducerEntry | None, header: BatchHeader, now_ms: float) -> bool:
        """Whether the batch skips some, is seen for the first time, and its producer may know the leader before."""
        if entry is None or not entry.batches or not skips(entry, header):
            return False
        settled = entry.batches[-1].last_offset >= self._start_offset and now_ms - self._since_ms > _NEW_MS
        batch = (header.producer_id, header.producer_epoch, header.base_sequence)
        if settled or batch in self._seen or len(self._seen) >= _MOST_EARLY:
            return False
        self._seen.add(batch)
        return True


def skips(entry: ProducerEntry | None, header: BatchHeader) -> bool:
    """Whether sequence numbers are missing between what the log has of this producer and the batch."""
    sequence = header.base_sequence
    if header.producer_id < 0 or sequence < 0:
        return False
    if entry is None or header.producer_epoch > entry.producer_epoch:
        return sequence != 0
    if header.producer_epoch < entry.producer_epoch:
        return False
    expected = (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE if entry.batches else 0
    return 0 < ((sequence - expected) & MAX_SEQUENCE) < MAX_SEQUENCE // 2

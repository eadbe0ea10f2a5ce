"""Batches that came without the one before them, which was refused. Pure.

An idempotent producer has up to five batches of a partition on the wire. If the first is refused because this broker
does not lead yet, and the second comes when it does, the second one's sequence is out of order here. Kafka says so, and
librdkafka then starts a new producer epoch, for all its partitions: what other leaders have of it and have not
acknowledged it sends again under new sequence numbers, and the log has it twice. So a batch that only lacks the refused
one before it gets NOT_LEADER_OR_FOLLOWER, once: every client sends again from the first.

The first may also have been refused by another broker that led before, and still be on its way back to its client's
queue when librdkafka sends the second one to us. So the same holds for what comes in the first minute of a leadership,
and for what a producer sends first to a leader.
"""

from __future__ import annotations

from typing import Final

from tailrace.errors import ErrorCode
from tailrace.log.producers.state import MAX_SEQUENCE, ProducerEntry
from tailrace.records.batch import BatchHeader

AskedPartition = tuple[bytes, int]  # a topic as the request names it, and a partition

MISSING: Final = "the batch before this one was refused: send both again"
# After these a client sends the same batch again; what it has sent behind it is on its way.
RETRIED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
_MOST_PLACES: Final = 1000
_MOST_FOLLOWERS: Final = 64
_MOST_EARLY: Final = 10_000
_NEW_MS: Final = 60_000


class RefusedBatches:
    """Of one connection: the partitions where a batch was refused, and which batches behind it were since."""

    __slots__ = ("_followers",)

    def __init__(self) -> None:
        self._followers: dict[AskedPartition, set[tuple[int, int, int]]] = {}

    def __len__(self) -> int:
        return len(self._followers)

    def refused(self, place: AskedPartition) -> None:
        """A batch for this partition was answered with an error of RETRIED."""
        self._followers.pop(place, None)
        if len(self._followers) >= _MOST_PLACES:
            del self._followers[next(iter(self._followers))]
        self._followers[place] = set()

    def awaits(self, place: AskedPartition) -> bool:
        """Whether the next batches for this partition must be looked at."""
        return place in self._followers

    def misses(self, place: AskedPartition, entry: ProducerEntry | None, header: BatchHeader) -> bool:
        """Whether the batch lacks the one before it, and is seen for the first time since that was refused.

        entry is what the log knows of its producer. A batch that comes next ends the matter, and a second try of the
        same batch is not answered here: if its client has given the refused one up, the log's own answer is due.
        """
        followers = self._followers.get(place)
        if followers is None:
            return False
        if not skips(entry, header):
            del self._followers[place]
            return False
        batch = (header.producer_id, header.producer_epoch, header.base_sequence)
        if batch in followers or len(followers) >= _MOST_FOLLOWERS:
            return False
        followers.add(batch)
        return True


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

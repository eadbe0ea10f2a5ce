"""Batches that came without the one before them, which was refused. Pure.

An idempotent producer has up to five batches of a partition on the wire. If the first is refused because this broker
does not lead yet, and the second comes when it does, the second one's sequence is out of order here. Kafka says so, and
librdkafka then starts a new producer epoch, for all its partitions: what other leaders have of it and have not
acknowledged it sends again under new sequence numbers, and the log has it twice. So a batch that only lacks the refused
one before it gets NOT_LEADER_OR_FOLLOWER, once: every client sends again from the first.

Those that were refused by the leader before: partitions/early_batches.py.
"""

from __future__ import annotations

from typing import Final

from tailrace.errors import ErrorCode
from tailrace.log.producers.state import ProducerEntry
from tailrace.records.batch import BatchHeader
from tailrace_broker.partitions.early_batches import skips

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

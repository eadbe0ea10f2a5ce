"""Offsets of open transactions (KIP-98): they count from the commit on and never after an abort.

A key that was written again after the transaction wrote it keeps the later value, as in Kafka, where the offset of the
record in the log decides. Here the order of records does, which is the same live and in replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tailrace.coordination.group_records import OffsetCommitted
from tailrace.kafka.ids import TopicPartition
from tailrace.state import ProducerIdAndEpoch

_GroupPartition = tuple[str, str, int]


class _Pending(NamedTuple):
    order: int
    offset: OffsetCommitted


class PendingOffsets:
    """What the transactions of one shard have written and nobody may see yet."""

    __slots__ = ("_by_producer", "_epochs", "_open", "_order", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[_GroupPartition, _Pending]] = {}
        self._epochs: dict[int, int] = {}  # of those producers
        self._open: dict[str, dict[TopicPartition, int]] = {}  # by group: how many transactions have an offset of it
        self._order = 0
        self._written: dict[_GroupPartition, int] = {}  # while anything is pending: what was written meanwhile

    def __len__(self) -> int:
        return sum(map(len, self._by_producer.values()))

    def __iter__(self) -> Iterator[OffsetCommitted]:
        return (pending.offset for held in self._by_producer.values() for pending in held.values())

    def epoch_of(self, producer_id: int) -> int:
        """The epoch of the producer's open transaction here, -1 without one."""
        return self._epochs.get(producer_id, -1)

    def of_group(self, group_id: str) -> AbstractSet[TopicPartition]:
        """The partitions of which open transactions have an offset (KIP-447)."""
        return self._open.get(group_id, {}).keys()

    def hold(self, producer: ProducerIdAndEpoch, offset: OffsetCommitted) -> None:
        """Takes up what a transaction wrote; one of a newer epoch follows another that nobody ended here."""
        producer_id, epoch = producer
        if self._epochs.get(producer_id, epoch) != epoch:
            self._forget(producer_id, self._by_producer.pop(producer_id))
        self._order += 1
        self._epochs[producer_id] = epoch
        held = self._by_producer.setdefault(producer_id, {})
        key = (offset.group_id, offset.topic, offset.partition)
        if key not in held:
            counts = self._open.setdefault(offset.group_id, {})
            counts[key[1:]] = counts.get(key[1:], 0) + 1
        held[key] = _Pending(self._order, offset)

    def written(self, group_id: str, topic: str, partition: int) -> None:
        """Outside of any transaction somebody committed an offset, which counts before all that is older."""
        if self._by_producer:
            self._order += 1
            self._written[group_id, topic, partition] = self._order

    def removed(self, group_id: str, topic: str, partition: int) -> None:
        """The offset was deleted, which goes for what is pending, too."""
        counts = self._open.get(group_id)
        if counts is not None and counts.pop((topic, partition), 0):
            for held in self._by_producer.values():
                held.pop((group_id, topic, partition), None)
            if not counts:
                del self._open[group_id]

    def end(self, producer_id: int, *, committed: bool) -> list[OffsetCommitted]:
        """Ends the producer's transaction; what counts from now on."""
        held = self._by_producer.pop(producer_id, {})
        counting = []
        for key, pending in held.items() if committed else ():
            if self._written.get(key, -1) < pending.order:
                counting.append(pending.offset)
                if self._by_producer:
                    self._written[key] = pending.order
        self._forget(producer_id, held)
        if not self._by_producer:
            self._written.clear()
        return counting

    def _forget(self, producer_id: int, held: Iterable[_GroupPartition]) -> None:
        self._epochs.pop(producer_id, None)
        for group_id, topic, partition in held:
            counts = self._open[group_id]
            counts[topic, partition] -= 1
            if not counts[topic, partition]:
                del counts[topic, partition]
                if not counts:
                    del self._open[group_id]

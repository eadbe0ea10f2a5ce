"""Batches that a client had sent behind one that its gateway refused. Pure.

As the broker's refused_batches.py, for a node that is away when the first batch comes and back with the second: that
one is refused as well, or the node would call its sequence number out of order. There is no log to ask here, so what
counts is that a batch goes on where the last refused one ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tailrace.log.producers.state import last_sequence
from tailrace.records.batch import HEADER_SIZE, BatchHeader, read_header

_MOST: Final = 1000

NamedPartition = tuple[str, Any, int]  # a topic by name and id, and a partition
Following = tuple[int, int, int]  # producer id, producer epoch, first sequence


class RefusedBatches:
    """Of one connection: what comes next behind the batches that were refused."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[NamedPartition, Following] = {}

    def refused(self, request: Any) -> None:
        """All partitions of this Produce were answered with an error after which it is sent again."""
        for place, header in _idempotent(request):
            if len(self._next) >= _MOST:
                self._next.clear()
            following = last_sequence(header.base_sequence, header.last_offset_delta + 1)
            self._next[place] = (header.producer_id, header.producer_epoch, following)

    def precede(self, request: Any) -> bool:
        """Whether a batch of this Produce was sent behind a refused one."""
        if not self._next:
            return False
        return any(
            self._next.get(place) == (header.producer_id, header.producer_epoch, header.base_sequence)
            for place, header in _idempotent(request)
        )

    def clear(self) -> None:
        """The client begins again; what it sends goes to the node in its order."""
        self._next.clear()


def _idempotent(request: Any) -> Iterator[tuple[NamedPartition, BatchHeader]]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if records is not None and len(records) >= HEADER_SIZE:
                header = read_header(records)
                if header.producer_id >= 0 and header.base_sequence >= 0:
                    yield (topic.name or "", topic.topic_id, partition.index), header

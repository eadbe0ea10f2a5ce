"""Which producers' transactions ended in one shard, so that what comes late does no harm (KIP-890)."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.state import EndOfTransaction, ProducerIdAndEpoch

_REMEMBERED = 10_000


class _Ended(NamedTuple):
    number: int
    producer_epoch: int
    coordinator_epoch: int


class EndedTransactions:
    """The last marker of each of the latest producers; `count` grows with every marker."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[int, _Ended] = {}

    def note(self, end: EndOfTransaction) -> None:
        """Takes up a marker."""
        producer_id, producer_epoch = end.producer
        self.count += 1
        self._last.pop(producer_id, None)  # so that the oldest come first
        self._last[producer_id] = _Ended(self.count, producer_epoch, end.coordinator_epoch)
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]

    def validate_epoch(self, producer: ProducerIdAndEpoch) -> None:
        """Refuses what a fenced producer sends. Raises ApiError INVALID_PRODUCER_EPOCH."""
        ended = self._last.get(producer.producer_id)
        if ended is not None and producer.producer_epoch < ended.producer_epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)

    def validate_marker(self, end: EndOfTransaction) -> None:
        """Refuses what an older coordinator sends, too. Raises ApiError TRANSACTION_COORDINATOR_FENCED."""
        self.validate_epoch(end.producer)
        ended = self._last.get(end.producer.producer_id)
        if ended is not None and end.coordinator_epoch < ended.coordinator_epoch:
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    def since(self, producer_id: int, count: int) -> bool:
        """Whether a transaction of the producer may have ended since there were so many markers."""
        ended = self._last.get(producer_id)
        return self.count - count > _REMEMBERED if ended is None else ended.number > count

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


class Moment(NamedTuple):
    """How many markers one loading of a shard had seen."""

    ended: EndedTransactions
    markers: int


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

    def moment(self) -> Moment:
        """From when on `validate_open_since` looks."""
        return Moment(self, self.count)

    def validate_open_since(self, moment: Moment, producer: ProducerIdAndEpoch, *, supports_epoch_bump: bool) -> None:
        """Refuses a producer whose transaction may have ended since. Raises ApiError INVALID_TXN_STATE.

        In transaction version 2 a transaction's marker has the epoch after its own: one of the same epoch is the late
        one of the transaction before. COORDINATOR_LOAD_IN_PROGRESS where another loading of the shard has counted.
        """
        if moment.ended is not self:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        ended = self._last.get(producer.producer_id)
        if ended is None:
            may_have_ended = self.count - moment.markers > _REMEMBERED
        else:
            is_earlier = supports_epoch_bump and ended.producer_epoch <= producer.producer_epoch
            may_have_ended = ended.number > moment.markers and not is_earlier
        if may_have_ended:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)

"""Which outcome EndTxn gives a transaction: commit, abort, nothing because it is a retry, or a refusal. Pure.

Up to version 4 the epoch stays (transaction versions 0 and 1), so that a retry looks like the next EndTxn and is told
from it by the state alone. From version 5 on (KIP-890) each end takes the next epoch, and a retry has the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.batch import LAST_PRODUCER_EPOCH
from tailrace.state import ProducerIdAndEpoch
from tailrace_coordinator.transactions.state import ENDING, NO_PRODUCER_ID, is_exhausted

_PREPARE = {True: Status.PREPARE_COMMIT, False: Status.PREPARE_ABORT}
_COMPLETE = {True: Status.COMPLETE_COMMIT, False: Status.COMPLETE_ABORT}
_COMPLETED = frozenset(_COMPLETE.values())


@dataclass(frozen=True, slots=True)
class End:
    """What EndTxn asks; version: the client's transaction version. new_producer_id -1: none was taken yet."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    version: int
    new_producer_id: int = NO_PRODUCER_ID


def outcome(found: TransactionState, request: End) -> Status | None:
    """PrepareCommit or PrepareAbort; None for a retry of what is done. Raises ApiError.

    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS while the markers are on their way, and
    INVALID_TXN_STATE where nothing is to be ended or the other outcome was decided.
    """
    return _of_version_2(found, request) if request.version >= 2 else _of_version_1(found, request)


def _of_version_1(found: TransactionState, request: End) -> Status | None:
    if found.producer_id != request.producer.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != request.producer.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if found.state in ENDING:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if found.state is Status.ONGOING:
        return _PREPARE[request.commit]
    if found.state is _COMPLETE[request.commit]:
        return None
    raise ApiError(ErrorCode.INVALID_TXN_STATE)


def _of_version_2(found: TransactionState, request: End) -> Status | None:
    if found.state in ENDING:  # before all else: whoever has been told the next epoch or id may end the next one soon
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    producer_id, epoch = request.producer
    is_present = (found.producer_id, found.producer_epoch) == request.producer
    is_retry = (found.producer_id == producer_id and found.producer_epoch == epoch + 1) or (
        found.previous_producer_id == producer_id and is_exhausted(epoch) and found.producer_epoch == 0
    )
    if found.producer_id != producer_id and not is_retry:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not is_present and not (is_retry and found.state in _COMPLETED):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if found.state is Status.ONGOING:
        return _PREPARE[request.commit]
    return _again(found, commit=request.commit) if is_retry else _of_nothing(commit=request.commit)


def _again(found: TransactionState, *, commit: bool) -> Status | None:
    """What ended with the epoch before is asked for once more, or the coordinator has aborted it by itself."""
    if found.state is _COMPLETE[commit]:
        # Aborted by a fence that took the last epoch, which no client is given: it goes on with another producer id.
        return Status.PREPARE_ABORT if found.producer_epoch == LAST_PRODUCER_EPOCH else None
    # A client asks for one outcome only: what it wanted to commit was aborted by the coordinator (KAFKA-20785).
    raise ApiError(ErrorCode.PRODUCER_FENCED if commit else ErrorCode.INVALID_TXN_STATE)


def _of_nothing(*, commit: bool) -> Status:
    """Nothing was begun, or no coordinator has heard of it: an abort takes the next epoch all the same."""
    if commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return Status.PREPARE_ABORT

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
from tailrace_coordinator.transactions.state import NO_PRODUCER_ID, is_exhausted

_PREPARE = {True: Status.PREPARE_COMMIT, False: Status.PREPARE_ABORT}
_COMPLETE = {True: Status.COMPLETE_COMMIT, False: Status.COMPLETE_ABORT}
_PREPARED = frozenset(_PREPARE.values())
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
    if found.state is Status.ONGOING:
        return _PREPARE[request.commit]
    if found.state is _COMPLETE[request.commit]:
        return None
    raise _refusal(found, request)


def _of_version_2(found: TransactionState, request: End) -> Status | None:
    producer_id, epoch = request.producer
    if found.next_producer_id == producer_id != NO_PRODUCER_ID:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)  # told of it, but the id counts from the last marker on
    again = found.producer_epoch == epoch + 1
    again_with_next_id = found.previous_producer_id == producer_id and is_exhausted(epoch) and found.producer_epoch == 0
    if found.producer_id != producer_id and not again_with_next_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = again or (again_with_next_id and found.state in _COMPLETED)
    is_present = found.producer_epoch == epoch and found.producer_id == producer_id
    if found.state in _PREPARED:
        if not again:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        raise _refusal(found, request)
    if not (is_present or (found.state in _COMPLETED and is_retry)):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if found.state is Status.ONGOING:
        return _PREPARE[request.commit]
    if is_retry and not is_present:
        if found.state is not _COMPLETE[request.commit]:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        # Aborted by a fence that took the last epoch, which no client is given: it goes on with another producer id.
        return Status.PREPARE_ABORT if found.producer_epoch == LAST_PRODUCER_EPOCH else None
    if request.commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return Status.PREPARE_ABORT  # nothing was begun, or no coordinator has heard of it: the epoch goes on all the same


def _refusal(found: TransactionState, request: End) -> ApiError:
    if found.state is _PREPARE[request.commit]:
        return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return ApiError(ErrorCode.INVALID_TXN_STATE)

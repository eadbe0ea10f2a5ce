"""How a transactional id goes from one state to the next (Kafka's TransactionMetadata). Pure.

Each function takes a state and gives the next one; what is refused raises ApiError. The epochs are those of KIP-360 (a
producer that goes on after an error) and KIP-890 (each end of a transaction takes a new epoch).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.records.batch import LAST_PRODUCER_EPOCH

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
ENDED: Final = frozenset({Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})
ENDING: Final = frozenset({Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
COMPLETE: Final = {Status.PREPARE_COMMIT: Status.COMPLETE_COMMIT, Status.PREPARE_ABORT: Status.COMPLETE_ABORT}


def created(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionState:
    """A new transactional id, whose first epoch is still to come."""
    return TransactionState(transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms, Status.EMPTY, (), now_ms, -1)


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no epoch may follow that a client is given: another producer id must take its place."""
    return producer_epoch >= LAST_PRODUCER_EPOCH - 1  # the last one is of a fence only


def takes_next_producer_id(state: TransactionState, expected_epoch: int) -> bool:
    """Whether InitProducerId with this epoch (-1: a new producer) finds no epoch left to give."""
    if not is_exhausted(state.producer_epoch):
        return False
    if expected_epoch in (NO_PRODUCER_EPOCH, state.producer_epoch):
        return True
    return expected_epoch == state.last_producer_epoch and state.producer_epoch == LAST_PRODUCER_EPOCH  # of a fence


def with_next_epoch(state: TransactionState, expected_epoch: int, timeout_ms: int, now_ms: int) -> TransactionState:
    """InitProducerId: fences who had the epoch before. expected_epoch -1: the producer is new (KIP-360).

    Raises ApiError PRODUCER_FENCED for an expected epoch that is not the present one; the one before it is a retry.
    """
    epoch = state.producer_epoch
    if expected_epoch == NO_PRODUCER_EPOCH:
        epoch, last = epoch + 1, NO_PRODUCER_EPOCH
    elif epoch in (NO_PRODUCER_EPOCH, expected_epoch):
        epoch, last = epoch + 1, epoch
    elif expected_epoch == state.last_producer_epoch:
        last = state.last_producer_epoch
    else:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return _emptied(state, timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)


def with_next_producer_id(
    state: TransactionState, producer_id: int, expected_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionState:
    """InitProducerId where the epochs are used up. A producer that said which epoch it had may ask again."""
    return _emptied(
        state,
        timeout_ms,
        now_ms,
        producer_id=producer_id,
        previous_producer_id=state.producer_id,
        producer_epoch=0,
        last_producer_epoch=expected_epoch,
    )


def _emptied(state: TransactionState, timeout_ms: int, now_ms: int, **changes: Any) -> TransactionState:
    changes = {"next_producer_id": NO_PRODUCER_ID, "start_timestamp_ms": -1, **changes}
    return replace(
        state, state=Status.EMPTY, partitions=(), timeout_ms=timeout_ms, last_update_timestamp_ms=now_ms, **changes
    )


def with_partitions(
    state: TransactionState, added: Iterable[TopicPartition], now_ms: int, version: int
) -> TransactionState:
    """AddPartitionsToTxn: the first of them begin the transaction. version: the client's transaction version."""
    begun = state.state is Status.ONGOING
    held = dict(state.partitions) if begun else {}
    rows: dict[str, set[int]] = {}
    for topic, index in added:
        rows.setdefault(topic, set()).add(index)
    for topic, indexes in rows.items():
        held[topic] = tuple(sorted(indexes.union(held.get(topic, ()))))
    return replace(
        state,
        state=Status.ONGOING,
        partitions=tuple(sorted(held.items())),
        start_timestamp_ms=state.start_timestamp_ms if begun else now_ms,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=version,
    )


def prepared(
    state: TransactionState, status: Status, now_ms: int, *, version: int, next_producer_id: int = NO_PRODUCER_ID
) -> TransactionState:
    """EndTxn: the outcome is decided. From transaction version 2 on the markers have an epoch of their own.

    Where nothing was begun (an abort that KIP-890 allows) the transaction begins and ends now.
    """
    changes: dict[str, Any] = {}
    if version >= 2:
        changes = {
            "producer_epoch": min(state.producer_epoch + 1, LAST_PRODUCER_EPOCH),
            "last_producer_epoch": state.producer_epoch,
            "next_producer_id": next_producer_id,
        }
    begun = state.state is Status.ONGOING
    return replace(
        state,
        state=status,
        partitions=state.partitions if begun else (),
        start_timestamp_ms=state.start_timestamp_ms if begun else now_ms,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=version,
        **changes,
    )


def fenced(state: TransactionState, now_ms: int) -> TransactionState:
    """An abort that no producer asked for: a transaction timed out, or another producer of its id begins.

    No client has the epoch. One that names the epoch before gets it from InitProducerId, unless another was sooner.
    """
    return replace(
        state,
        state=Status.PREPARE_ABORT,
        producer_epoch=min(state.producer_epoch + 1, LAST_PRODUCER_EPOCH),
        last_producer_epoch=state.producer_epoch,
        last_update_timestamp_ms=now_ms,
    )


def completed(state: TransactionState, now_ms: int) -> TransactionState:
    """Every partition has its marker. A producer id whose epochs are used up is left for the next one."""
    changes: dict[str, Any] = {}
    if state.next_producer_id != NO_PRODUCER_ID:
        changes = {
            "producer_id": state.next_producer_id,
            "producer_epoch": 0,
            "previous_producer_id": state.producer_id,
            "next_producer_id": NO_PRODUCER_ID,
        }
    elif state.client_transaction_version >= 2:
        changes = {"previous_producer_id": state.producer_id}
    return replace(
        state,
        state=COMPLETE[state.state],
        partitions=(),
        last_update_timestamp_ms=now_ms,
        **changes,
    )


def partitions_of(state: TransactionState) -> set[TopicPartition]:
    """All that the transaction writes to."""
    return {(topic, index) for topic, indexes in state.partitions for index in indexes}

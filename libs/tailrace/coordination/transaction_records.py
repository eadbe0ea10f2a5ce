"""What `__transaction_state` holds: Apache Kafka's TransactionLogKey 0 and TransactionLogValue 0 and 1, read only.

An imported log has such records; none of ours are written yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.coordination.fields import BadRecord, FieldReader

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_NEWEST: Final = 1  # and the first flexible one


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transactional id's producer and how far its transaction is; start_timestamp_ms -1: none was begun."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    last_update_timestamp_ms: int
    start_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TransactionStateRemoved:
    """The tombstone of a transactional id."""

    transactional_id: str


def decode(key: bytes, value: bytes | None) -> TransactionState | TransactionStateRemoved:
    """Raises BadRecord."""
    reader = FieldReader(key)
    if version := reader.int16():
        raise BadRecord(f"key version {version}, highest known 0")
    transactional_id = reader.string()
    if value is None:
        return TransactionStateRemoved(transactional_id)
    reader = FieldReader(value)
    reader.version(_NEWEST, flexible_from=_NEWEST)
    producer_id, producer_epoch, timeout_ms, state = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    if state >= len(STATES):
        raise BadRecord(f"state {state}")
    partitions = tuple(reader.array(lambda: _partitions(reader)))
    return TransactionState(
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        STATES[state],
        partitions,
        reader.int64(),
        reader.int64(),
    )


def _partitions(reader: FieldReader) -> tuple[str, tuple[int, ...]]:
    topic, indexes = reader.string(), tuple(reader.array(reader.int32))
    reader.end_of_struct()
    return topic, indexes

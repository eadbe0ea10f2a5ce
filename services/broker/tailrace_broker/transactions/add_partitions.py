"""What a partition's leader asks a transaction's coordinator before its first append (KIP-890), and the answer. Pure.

Kafka's AddPartitionsToTxnManager. A producer of the first protocol (Produce below v12) has told its coordinator itself:
the leader has it confirmed (verify_only). For one of the second protocol the leader adds the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace.errors import ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

ABORTABLE_FROM: Final = 11  # Produce: TRANSACTION_ABORTABLE is known
ADDS_FROM: Final = 12  # Produce: the partition is added to the transaction here
_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Topic = _Transaction.AddPartitionsToTxnTopic
# Retriable, but not for every client: NOT_ENOUGH_REPLICAS is, and none refreshes its metadata for it.
_NOT_VERIFIED: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
Answers = Mapping[TopicPartition, int]


class Asked(NamedTuple):
    """Who asks: what a coordinator hears of it but for the partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool


def request(asked: Mapping[Asked, Iterable[TopicPartition]]) -> AddPartitionsToTxnRequest:
    """One request for many transactions; each id stands once."""
    assert len({one.transactional_id for one in asked}) == len(asked)
    transactions = []
    for one, partitions in asked.items():
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        rows = [_Topic(name=name, partitions=indexes) for name, indexes in topics.items()]
        transactions.append(_Transaction(*one, topics=rows))
    return AddPartitionsToTxnRequest(transactions=transactions)


def answers(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, int]]:
    """The error codes by transactional id and partition."""
    return {
        result.transactional_id: {
            (topic.name, row.partition_index): int(row.partition_error_code)
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


def refused_whole(code: int) -> int:
    """What each partition's error is where a coordinator refuses a whole request."""
    return ErrorCode.INVALID_TXN_STATE if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code


def produce_error(code: int, version: int) -> tuple[int, str | None]:
    """The error and message that a Produce of this version is answered, for a coordinator's error."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    if code in _NOT_VERIFIED or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_FROM):
        why = ErrorCode(code).name
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {why}",
        )
    return code, None

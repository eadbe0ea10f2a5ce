"""How handlers ask the transaction machine: with patience for an earlier transaction, and with new producer ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire import messages as m
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.transactions.machine import NeedsProducerId
from tailrace_coordinator.transactions.peers import AWAY
from tailrace_coordinator.transactions.state import NO_PRODUCER_ID

T = TypeVar("T")
_NEW_IDS_MAX: Final = 3
_VERIFY_VERSION: Final = 5
_VERIFY_TIMEOUT_MS: Final = 5_000
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def of_version(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED as clients know it that ask in a version before it was there (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < since else code


async def patiently(coordinator: Coordinator, transactional_id: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Asks once more when the markers of an earlier transaction are written, if that is soon. Raises ApiError.

    A client that hears CONCURRENT_TRANSACTIONS waits longer than the markers take.
    """
    try:
        return await ask()
    except ApiError as refused:
        if refused.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            raise
    await coordinator.markers.ended(transactional_id, coordinator.earlier_transaction_ms)
    return await ask()


async def with_producer_ids(
    coordinator: Coordinator, ask: Callable[[int], Awaitable[ProducerIdAndEpoch | NeedsProducerId]]
) -> ProducerIdAndEpoch:
    """ask is given -1, or a producer id that nobody has if the decision takes one. Raises ApiError."""
    new_producer_id = NO_PRODUCER_ID
    for _ in range(_NEW_IDS_MAX):
        reply = await ask(new_producer_id)
        if isinstance(reply, ProducerIdAndEpoch):
            return reply
        new_producer_id = await coordinator.peers.new_producer_id()
    raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


async def add(
    coordinator: Coordinator,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicPartition],
    version: int,
) -> None:
    """Makes the partitions ones of the transaction. Raises ApiError."""
    await patiently(
        coordinator,
        transactional_id,
        lambda: coordinator.transactions.ask(
            transactional_id,
            lambda machine, now_ms, token: machine.add_partitions(
                now_ms, token, transactional_id, producer, partitions, version
            ),
        ),
    )


async def verify(
    coordinator: Coordinator,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partition: TopicPartition,
    *,
    adds: bool,
) -> None:
    """Has the id's coordinator, which may be another one, say that the transaction has the partition (KIP-890).

    adds: it is added if it has not. Raises ApiError, with COORDINATOR_LOAD_IN_PROGRESS while nobody can say.
    """
    address = coordinator.peers.transaction_coordinator(transactional_id)
    if address is None:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    row = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    topic, index = partition
    request = m.AddPartitionsToTxnRequest(
        transactions=[
            row(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=not adds,
                topics=[row.AddPartitionsToTxnTopic(name=topic, partitions=[index])],
            )
        ]
    )
    try:
        answer = await coordinator.peers.ask(address, request, version=_VERIFY_VERSION, timeout_ms=_VERIFY_TIMEOUT_MS)
    except AWAY as away:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from away
    code = ErrorCode(answer.error_code or _only_code(answer))
    if code:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH if code in _FENCED else _LATER.get(code, code))


# What it means that the transaction's coordinator is another one: nothing that the group's clients must look up again.
_LATER: Final = dict.fromkeys(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def _only_code(answer: m.AddPartitionsToTxnResponse) -> int:
    codes = [
        partition.partition_error_code
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    ]
    return int(codes[0]) if codes else int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

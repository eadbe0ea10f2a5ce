"""AddPartitionsToTxn v0-5. v2 PRODUCER_FENCED (KIP-588). v4 many transactions, of partition leaders (KIP-890).

A leader asks for its producers: with verify_only whether the transaction has the partition, without it to add it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.handlers.asking import add, of_version

_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Topics: TypeAlias = (
    Iterable[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] | Iterable[_Transaction.AddPartitionsToTxnTopic]
)
_TOPIC = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_PARTITION = _TOPIC.AddPartitionsToTxnPartitionResult
_RESULT = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_LEADERS_FROM: Final = 4
_OF_LEADERS: Final = 2  # the transaction version of producers whose partitions leaders add

Codes = Mapping[TopicPartition, ErrorCode]


async def handle(
    request: AddPartitionsToTxnRequest, context: Context, coordinator: Coordinator
) -> AddPartitionsToTxnResponse:
    """Answers one code per partition; all have the same if the transaction is refused."""
    if context.api_version >= _LEADERS_FROM:
        found = await asyncio.gather(*(_of_a_leader(asked, coordinator) for asked in request.transactions))
        return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=found)
    topics = request.v3_and_below_topics
    codes = await _of_a_client(request, context, coordinator)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_rows(topics, codes))


async def _of_a_leader(asked: _Transaction, coordinator: Coordinator) -> _RESULT:
    producer = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    partitions = _partitions(asked.topics)
    try:
        if not asked.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if asked.verify_only:
            codes = await _verified(coordinator, asked.transactional_id, producer, partitions)
        else:
            await add(coordinator, asked.transactional_id, producer, partitions, _OF_LEADERS)
            codes = dict.fromkeys(partitions, ErrorCode.NONE)
    except ApiError as refused:
        codes = dict.fromkeys(partitions, refused.code)
    return _RESULT(transactional_id=asked.transactional_id, topic_results=_rows(asked.topics, codes))


async def _verified(
    coordinator: Coordinator, transactional_id: str, producer: ProducerIdAndEpoch, partitions: list[TopicPartition]
) -> Codes:
    verified: list[ErrorCode] = await coordinator.transactions.ask(
        transactional_id,
        lambda machine, now_ms, token: machine.verify_partitions(now_ms, token, transactional_id, producer, partitions),
    )
    return dict(zip(partitions, verified, strict=True))


async def _of_a_client(request: AddPartitionsToTxnRequest, context: Context, coordinator: Coordinator) -> Codes:
    """What does not exist is refused, and all the rest is not tried then."""
    partitions, unknown = _partitions(request.v3_and_below_topics), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    lacking = _lacking(coordinator.image, partitions)
    if lacking:
        latest = await coordinator.latest_image()
        if latest is None:
            unknown = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        else:
            lacking = _lacking(latest, partitions)
    if lacking:
        return {one: unknown if one in lacking else ErrorCode.OPERATION_NOT_ATTEMPTED for one in partitions}
    producer = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    transactional_id, code = request.v3_and_below_transactional_id, ErrorCode.NONE
    try:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        await add(coordinator, transactional_id, producer, partitions, 0)
    except ApiError as refused:
        code = of_version(refused.code, context.api_version, since=2)
    return dict.fromkeys(partitions, code)


def _partitions(topics: _Topics) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _lacking(image: MetadataImage, partitions: list[TopicPartition]) -> set[TopicPartition]:
    return {one for one in partitions if image.partition(*one) is None}


def _rows(topics: _Topics, codes: Codes) -> list[Any]:
    return [
        _TOPIC(
            name=topic.name,
            results_by_partition=[
                _PARTITION(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]

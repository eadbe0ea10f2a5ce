"""AddPartitionsToTxn v0-5. v2 PRODUCER_FENCED (KIP-588). v4 many transactions, of partition leaders (KIP-890).

A leader asks for its producers: with verify_only whether the transaction has the partition, without it to add it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.pieces import freed, in_pieces
from tailrace.net.spread import Spread
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.transactions.asking import add, of_version

_TOPIC = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_PARTITION = _TOPIC.AddPartitionsToTxnPartitionResult
_RESULT = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_LEADERS_FROM = 4
_TRANSACTIONS_AT_ONCE = 50  # before others have their turn: each is a decision of a shard's machine
_OF_LEADERS = 2  # the transaction version of producers whose partitions leaders add


async def handle(
    request: AddPartitionsToTxnRequest, context: Context, coordinator: Coordinator
) -> AddPartitionsToTxnResponse:
    """Answers one code per partition; all have the same if the transaction is refused."""
    if context.api_version >= _LEADERS_FROM:
        results = []
        async for asked in in_pieces(request.transactions, _TRANSACTIONS_AT_ONCE):
            topics = await _codes(asked, asked.topics, context, coordinator, verify_only=asked.verify_only)
            results.append(_RESULT(transactional_id=asked.transactional_id, topic_results=topics))
        return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=results)
    topics = await _of_a_client(request, context, coordinator)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


async def _of_a_client(request: AddPartitionsToTxnRequest, context: Context, coordinator: Coordinator) -> list[Any]:
    """What does not exist is refused, and all the rest is not tried then."""
    topics, image = request.v3_and_below_topics, coordinator.image
    if await _lacks(image, topics):
        image = await coordinator.latest_image() or image
    if await _lacks(image, topics):
        return await _topics(topics, lambda topic, index: _not_tried(image, topic, index))
    return await _codes(_V3(request), topics, context, coordinator, verify_only=False)


class _V3:
    """The one transaction of v0-3."""

    __slots__ = ("producer_epoch", "producer_id", "transactional_id")

    def __init__(self, request: AddPartitionsToTxnRequest) -> None:
        self.transactional_id = request.v3_and_below_transactional_id
        self.producer_id = request.v3_and_below_producer_id
        self.producer_epoch = request.v3_and_below_producer_epoch


async def _lacks(image: MetadataImage, topics: Any) -> bool:
    async for topic in in_pieces(topics):
        async for index in in_pieces(topic.partitions):
            if not _exists(image, topic.name, index):
                return True
    return False


def _exists(image: MetadataImage, topic: str, index: int) -> bool:
    found = image.topic(topic)
    return found is not None and 0 <= index < len(found.partitions)


def _not_tried(image: MetadataImage, topic: str, index: int) -> ErrorCode:
    exists = _exists(image, topic, index)
    return ErrorCode.OPERATION_NOT_ATTEMPTED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _codes(
    asked: Any, topics: Any, context: Context, coordinator: Coordinator, *, verify_only: bool
) -> list[Any]:
    partitions = [
        (topic.name, index) async for topic in in_pieces(topics) async for index in in_pieces(topic.partitions)
    ]
    producer = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    transactional_id = asked.transactional_id
    codes = Spread[TopicPartition, ErrorCode]()
    code = ErrorCode.NONE
    try:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if verify_only:
            verified = await coordinator.transactions.ask(
                transactional_id,
                lambda machine, now_ms, token: machine.verify_partitions(
                    now_ms, token, transactional_id, producer, partitions
                ),
            )
            async for partition, found in in_pieces(zip(partitions, verified, strict=True)):
                codes[partition] = found
        else:
            version = _OF_LEADERS if context.api_version >= _LEADERS_FROM else 0
            await add(coordinator, transactional_id, producer, partitions, version)
    except ApiError as refused:
        code = of_version(refused.code, context.api_version, since=2)
    answered = await _topics(topics, lambda topic, index: codes.get((topic, index), code))
    await freed(codes, partitions)
    return answered


async def _topics(topics: Any, code_of: Callable[[str, int], ErrorCode]) -> list[Any]:
    return [
        _TOPIC(
            name=topic.name,
            results_by_partition=[
                _PARTITION(partition_index=index, partition_error_code=code_of(topic.name, index))
                async for index in in_pieces(topic.partitions)
            ],
        )
        async for topic in in_pieces(topics)
    ]

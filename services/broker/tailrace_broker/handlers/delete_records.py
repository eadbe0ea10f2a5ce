"""DeleteRecords v0-2 (KIP-107): everything below an offset becomes unreadable; -1 means the high watermark."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DeleteRecordsRequest, DeleteRecordsResponse
from tailrace_broker import trims

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker

_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Row = _Topic.DeleteRecordsPartitionResult


async def handle(request: DeleteRecordsRequest, context: Context, broker: Broker) -> DeleteRecordsResponse:
    """Answers the new log start offset of each partition."""
    topics = []
    for asked in request.topics:
        rows = await asyncio.gather(
            *(
                _delete(broker, asked.name, want.partition_index, want.offset, request.timeout_ms)
                for want in {row.partition_index: row for row in asked.partitions}.values()  # the last one counts
            )
        )
        topics.append(_Topic(name=asked.name, partitions=list(rows)))
    return DeleteRecordsResponse(topics=topics)


async def _delete(broker: Broker, topic: str, index: int, offset: int, timeout_ms: int) -> Any:
    try:
        partition = broker.led(topic, index)
        if partition.internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        log = partition.log
        if not _deletable(log.config.cleanup_policy):
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if offset == -1:
            offset = partition.high_watermark
        if offset < 0 or offset > partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.advance_log_start_offset(offset)
        broker.node.changed.add(partition)
        broker.appended(partition)
        await trims.trimmed(partition, offset, timeout_ms)
    except ApiError as refused:
        return _Row(partition_index=index, low_watermark=-1, error_code=int(refused.code))
    except OSError:
        return _Row(partition_index=index, low_watermark=-1, error_code=int(ErrorCode.KAFKA_STORAGE_ERROR))
    return _Row(partition_index=index, low_watermark=partition.low_watermark, error_code=0)


def _deletable(policy: Any) -> bool:
    """Not where a log is only compacted; one of no policy at all is neither cleaned nor protected, as in Kafka."""
    names = policy.split(",") if isinstance(policy, str) else policy
    return "delete" in names or "compact" not in names

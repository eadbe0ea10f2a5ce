"""OffsetForLeaderEpoch v2-4 (KIP-101, KIP-320): where a leader epoch ended, so that clients notice truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tailrace_broker.handlers.rows import partition_rows

if TYPE_CHECKING:
    from tailrace_broker.partitions.topics import Topics

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Row = _Topic.EpochEndOffset


async def handle(
    request: OffsetForLeaderEpochRequest, context: Context, topics: Topics
) -> OffsetForLeaderEpochResponse:
    """One row per asked partition."""
    found: dict[str, list[_Row]] = {topic.topic: [] for topic in request.topics}
    async for topic, want in partition_rows(request.topics):
        found[topic.topic].append(_row(topics, topic.topic, want))
    return OffsetForLeaderEpochResponse(topics=[_Topic(topic=topic, partitions=rows) for topic, rows in found.items()])


def _row(
    topics: Topics, topic: str, want: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition
) -> _Row:
    try:
        partition = topics.led(topic, want.partition)
        partition.check_epoch(want.current_leader_epoch)
        if want.leader_epoch == partition.leader_epoch:
            epoch, end = partition.leader_epoch, partition.log.log_end_offset
        else:
            log = partition.log
            epoch, end = log.epochs.end_offset_for(want.leader_epoch, log.log_end_offset)
    except ApiError as refused:
        return _Row(error_code=int(refused.code), partition=want.partition, leader_epoch=-1, end_offset=-1)
    except OSError:
        code = int(ErrorCode.KAFKA_STORAGE_ERROR)
        return _Row(error_code=code, partition=want.partition, leader_epoch=-1, end_offset=-1)
    return _Row(error_code=0, partition=want.partition, leader_epoch=epoch, end_offset=end)

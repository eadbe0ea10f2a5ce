"""OffsetForLeaderEpoch v2-4 (KIP-101, KIP-320): where a leader epoch ended, so that clients notice truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.pieces import in_pieces, with_rows
from tailrace.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker

_MOST_AT_ONCE = 50  # partitions that are looked at before others have their turn; a log may have to be opened first
_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Row = _Topic.EpochEndOffset


async def handle(
    request: OffsetForLeaderEpochRequest, context: Context, broker: Broker
) -> OffsetForLeaderEpochResponse:
    """One row per asked partition."""
    topics: list[_Topic] = []
    async for topic, want in in_pieces(with_rows(request.topics, "partitions"), _MOST_AT_ONCE):
        if want is None:
            topics.append(_Topic(topic=topic.topic, partitions=[]))
        else:
            topics[-1].partitions.append(_row(broker, topic.topic, want))
    return OffsetForLeaderEpochResponse(topics=topics)


def _row(broker: Broker, topic: str, want: Any) -> Any:
    try:
        partition = broker.led(topic, want.partition)
        partition.check_epoch(want.current_leader_epoch)
        if want.leader_epoch == partition.leader_epoch:
            epoch, end = partition.leader_epoch, partition.log.log_end_offset
        else:
            epoch, end = partition.log.end_offset_for_epoch(want.leader_epoch)
    except ApiError as refused:
        return _Row(error_code=int(refused.code), partition=want.partition, leader_epoch=-1, end_offset=-1)
    except OSError:
        code = int(ErrorCode.KAFKA_STORAGE_ERROR)
        return _Row(error_code=code, partition=want.partition, leader_epoch=-1, end_offset=-1)
    return _Row(error_code=0, partition=want.partition, leader_epoch=epoch, end_offset=end)

"""ListOffsets v1-11. v4: leader epochs. v7: max timestamp (KIP-734). v8: earliest local (KIP-405). v9: latest tiered
(KIP-1005). v11: earliest pending upload (KIP-1023). Without tiered storage local is all there is and tiered nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker
    from tailrace_broker.partition import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Row = _Topic.ListOffsetsPartitionResponse


async def handle(request: ListOffsetsRequest, context: Context, broker: Broker) -> ListOffsetsResponse:
    """One row per asked partition; errors are per partition."""
    topics = []
    for asked in request.topics:
        rows = []
        for want in asked.partitions:
            try:
                partition = broker.led(asked.name, want.partition_index)
                partition.check_epoch(want.current_leader_epoch)
                rows.append(_row(partition, want, context.api_version))
            except ApiError as refused:
                rows.append(_refused(want.partition_index, refused.code))
            except OSError:
                rows.append(_refused(want.partition_index, ErrorCode.KAFKA_STORAGE_ERROR))
        topics.append(_Topic(name=asked.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


def _refused(index: int, code: int) -> Any:
    return _Row(partition_index=index, error_code=int(code), timestamp=-1, offset=-1, leader_epoch=-1)


def _row(partition: Partition, want: Any, version: int) -> Any:
    timestamp = want.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    found, at_ms, epoch = -1, -1, -1
    if timestamp == LATEST:
        _check_settled(partition, version)
        found, epoch = partition.high_watermark, partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        found = log.log_start_offset
        epoch = log.epoch_at(found)
    elif timestamp not in (EARLIEST_PENDING_UPLOAD, LATEST_TIERED):
        if timestamp == MAX_TIMESTAMP:
            hit = log.offset_of_max_timestamp(partition.high_watermark)
        else:
            hit = log.offset_for_timestamp(timestamp, partition.high_watermark)
        if hit is None:
            _check_settled(partition, version)
        else:
            at_ms, found, epoch = hit.timestamp, hit.offset, hit.leader_epoch
    return _Row(partition_index=want.partition_index, error_code=0, timestamp=at_ms, offset=found, leader_epoch=epoch)


def _check_settled(partition: Partition, version: int) -> None:
    """KIP-207: a new leader does not know yet how much of its log is committed, and end offsets never go back."""
    if not partition.settled:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)

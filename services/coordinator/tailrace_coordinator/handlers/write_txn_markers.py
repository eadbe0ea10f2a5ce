"""WriteTxnMarkers v1-2 for `__consumer_offsets`: the offsets of a transaction count from now on, or go (KIP-98).

v2 the transaction version of the marker. Partitions of other topics are their leaders'.
"""

from __future__ import annotations

import asyncio

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.state import ROWS_AT_ONCE, EndOfTransaction, ProducerIdAndEpoch
from tailrace.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tailrace_coordinator.coordinator import Coordinator

_MARKER = WriteTxnMarkersResponse.WritableTxnMarkerResult
_TOPIC = _MARKER.WritableTxnMarkerTopicResult
_PARTITION = _TOPIC.WritableTxnMarkerPartitionResult


async def handle(
    request: WriteTxnMarkersRequest, context: Context, coordinator: Coordinator
) -> WriteTxnMarkersResponse:
    """Answers one code per marker and partition, each once the marker is in the log."""
    asked = [
        (_end(marker), _version(marker, context), topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    codes: list[ErrorCode] = []
    for first in range(0, len(asked), ROWS_AT_ONCE):
        some = asked[first : first + ROWS_AT_ONCE]
        codes += await asyncio.gather(*(_write(coordinator, *one) for one in some))
    left = iter(codes)
    return WriteTxnMarkersResponse(
        markers=[
            _MARKER(
                producer_id=marker.producer_id,
                topics=[
                    _TOPIC(
                        name=topic.name,
                        partitions=[
                            _PARTITION(partition_index=index, error_code=next(left))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _end(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> EndOfTransaction:
    producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
    return EndOfTransaction(producer, bool(marker.transaction_result), marker.coordinator_epoch)


def _version(marker: WriteTxnMarkersRequest.WritableTxnMarker, context: Context) -> int:
    """The transaction version of a marker; before v2 of the request nobody says."""
    return int(marker.transaction_version) if context.api_version >= 2 else 0


async def _write(
    coordinator: Coordinator, end: EndOfTransaction, transaction_version: int, topic: str, index: int
) -> ErrorCode:
    groups = coordinator.groups
    if topic != groups.topic:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        code: ErrorCode = await groups.ask_partition(
            index, lambda machine, now_ms, token: machine.end_transaction(now_ms, token, end, transaction_version)
        )
    except ApiError as refused:
        return refused.code
    return code

"""OffsetDelete v0 (KIP-496).

GROUP_SUBSCRIBED_TO_TOPIC for topics a living group reads; NON_EMPTY_GROUP where that cannot be known.
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace_coordinator.coordinator import Coordinator


async def handle(request: OffsetDeleteRequest, context: Context, coordinator: Coordinator) -> OffsetDeleteResponse:
    """Answers one code per partition; an offset that is not there counts as deleted."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    named = {(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if any(coordinator.image.partition(*one) is None for one in named) and not await coordinator.caught_up():
        unknown = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    asked = sorted(one for one in named if coordinator.image.partition(*one) is not None)
    decided = await coordinator.ask(  # even with nothing to delete: the group's own refusal comes first
        request.group_id,
        lambda groups, now_ms, token: groups.delete_offsets(now_ms, token, request.group_id, asked),
    )
    codes = dict(zip(asked, decided, strict=True))
    coordinator.metrics.offset_deletions += sum(code is ErrorCode.NONE for code in decided)
    topic_row = OffsetDeleteResponse.OffsetDeleteResponseTopic
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            topic_row(
                name=topic.name,
                partitions=[
                    topic_row.OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=codes.get((topic.name, p.partition_index), unknown),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )

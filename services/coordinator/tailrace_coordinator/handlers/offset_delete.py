"""OffsetDelete v0 (KIP-496).

GROUP_SUBSCRIBED_TO_TOPIC for topics a living group reads; NON_EMPTY_GROUP where that cannot be known.
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.pieces import in_pieces
from tailrace.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace_coordinator.coordinator import Coordinator


async def handle(request: OffsetDeleteRequest, context: Context, coordinator: Coordinator) -> OffsetDeleteResponse:
    """Answers one code per partition; an offset that is not there counts as deleted."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    named = {
        (topic.name, partition.partition_index)
        async for topic in in_pieces(request.topics)
        async for partition in in_pieces(topic.partitions)
    }
    asked = [one async for one in in_pieces(named) if coordinator.image.partition(*one) is not None]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(asked) < len(named):
        if not await coordinator.caught_up():
            unknown = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        asked = [one async for one in in_pieces(named) if coordinator.image.partition(*one) is not None]
    decided = await coordinator.groups.ask_in_pieces(  # also of nothing: the group's own refusal comes first
        request,
        asked,
        lambda some, groups, now_ms, token: groups.delete_offsets(now_ms, token, request.group_id, some),
    )
    code_of = dict(zip(asked, decided, strict=True))
    coordinator.offset_deletions += decided.count(ErrorCode.NONE)
    topic_row = OffsetDeleteResponse.OffsetDeleteResponseTopic
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            topic_row(
                name=topic.name,
                partitions=[
                    topic_row.OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=code_of.get((topic.name, p.partition_index), unknown),
                    )
                    async for p in in_pieces(topic.partitions)
                ],
            )
            async for topic in in_pieces(request.topics)
        ],
    )

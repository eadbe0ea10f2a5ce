"""OffsetDelete v0 (KIP-496).

GROUP_SUBSCRIBED_TO_TOPIC for topics a living group reads; NON_EMPTY_GROUP where that cannot be known.
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace_coordinator.coordinator import Coordinator


async def handle(request: OffsetDeleteRequest, context: Context, coordinator: Coordinator) -> OffsetDeleteResponse:
    """Answers one code per partition; an offset that is not there counts as deleted."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    there, asked = _there(request, coordinator.image)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(asked) < len(there):
        latest = await coordinator.latest_image()
        if latest is None:
            unknown = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        else:
            there, asked = _there(request, latest)
    decided = await coordinator.groups.ask_in_pieces(  # also of nothing: the group's own refusal comes first
        request,
        asked,
        lambda some, groups, now_ms, token: groups.delete_offsets(now_ms, token, request.group_id, some),
    )
    coordinator.offset_deletions += decided.count(ErrorCode.NONE)
    known, codes = iter(there), iter(decided)
    topic_row = OffsetDeleteResponse.OffsetDeleteResponseTopic
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            topic_row(
                name=topic.name,
                partitions=[
                    topic_row.OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=next(codes) if next(known) else unknown,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _there(request: OffsetDeleteRequest, image: MetadataImage) -> tuple[list[bool], list[tuple[str, int]]]:
    """Of each partition whether it is there, and those that are; what is named twice is one by now."""
    there, asked = [], []
    for topic in request.topics:
        for partition in topic.partitions:
            which = (topic.name, partition.partition_index)
            there.append(image.partition(*which) is not None)
            if there[-1]:
                asked.append(which)
    return there, asked

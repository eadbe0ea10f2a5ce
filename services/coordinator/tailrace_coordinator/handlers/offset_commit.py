"""OffsetCommit v2-10.

v2-4 retention_time_ms (KIP-211 took it away). v6 leader epoch (KIP-320). v7 group.instance.id (KIP-345). v9 member
epoch (KIP-848) and GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION. v10 topic ids (KIP-1103): UNKNOWN_TOPIC_ID.
Generation -1 and no member: a standalone consumer or an admin, only while the group is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.net.context import Context
from tailrace.wire.messages import OffsetCommitRequest, OffsetCommitResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit

_TOPIC = OffsetCommitResponse.OffsetCommitResponseTopic


async def handle(request: OffsetCommitRequest, context: Context, coordinator: Coordinator) -> OffsetCommitResponse:
    """Answers one code per partition, once the offsets are committed."""
    decided = []
    rows, positions = await sorted_positions(request, coordinator, by_id=context.api_version >= 10)
    if positions:
        commit = CommitHeader(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            context.api_version,
            request.retention_time_ms if context.api_version <= 4 else -1,
        )
        decided = await coordinator.groups.ask_in_pieces(
            request,
            positions,
            lambda some, groups, now_ms, token: groups.commit(now_ms, token, commit, some),
        )
        coordinator.offset_commits += len(positions)
    topics = await answered(request, coordinator, rows, decided, _TOPIC, _TOPIC.OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=topics)


async def sorted_positions(
    request: Any, coordinator: Coordinator, *, by_id: bool = False
) -> tuple[list[list[ErrorCode | None]], list[OffsetToCommit]]:
    """The code of each partition that is not there, None for the rest; and what is asked of the rest.

    What the image does not have was created after it: an image from before a restart may be older than the log.
    """
    over_rows = coordinator.large.over_rows
    rows, positions = await over_rows(request, partial(_sorted, request, coordinator.image, None, by_id=by_id))
    if len(positions) < sum(map(len, rows)):
        latest = await coordinator.latest_image()
        late = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if latest is None else None
        image = latest or coordinator.image
        rows, positions = await over_rows(request, partial(_sorted, request, image, late, by_id=by_id))
    return rows, positions


def _sorted(
    request: Any, image: MetadataImage, late: ErrorCode | None, *, by_id: bool
) -> tuple[list[list[ErrorCode | None]], list[OffsetToCommit]]:
    """late: the code of what is not there, in place of what says that it is not."""
    rows: list[list[ErrorCode | None]] = []
    positions = []
    for topic in request.topics:
        found, unknown = find_topic(image, topic, by_id=by_id)
        row: list[ErrorCode | None] = []
        for partition in topic.partitions:
            if found is None:
                row.append(late or unknown)
            elif not 0 <= partition.partition_index < len(found.partitions):
                row.append(late or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                row.append(None)
                positions.append(_position(found, partition))
        rows.append(row)
    return rows, positions


def find_topic(image: MetadataImage, asked: Any, *, by_id: bool) -> tuple[TopicImage | None, ErrorCode]:
    """Returns the topic a request names or identifies, and the error where there is none."""
    if by_id:
        topic = None if asked.topic_id is None else image.topic_by_id(asked.topic_id)
        return topic, ErrorCode.UNKNOWN_TOPIC_ID
    return image.topic(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _position(topic: TopicImage, partition: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
        topic.topic_id,
    )


async def answered(
    request: Any,
    coordinator: Coordinator,
    rows: list[list[ErrorCode | None]],
    decided: Iterable[ErrorCode],
    topic_type: Any,
    partition_type: Any,
) -> list[Any]:
    """Returns the topics of the answer: each partition with its own code, or the next one that was decided."""
    left = iter(decided)

    def topics() -> list[Any]:
        return [
            topic_type(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=[
                    partition_type(
                        partition_index=partition.partition_index, error_code=next(left) if code is None else code
                    )
                    for partition, code in zip(asked.partitions, row, strict=True)
                ],
            )
            for asked, row in zip(request.topics, rows, strict=True)
        ]

    return await coordinator.large.over_rows(request, topics)

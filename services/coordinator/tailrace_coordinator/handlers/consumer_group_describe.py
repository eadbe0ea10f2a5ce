"""ConsumerGroupDescribe v0-1 (KIP-848). v1 member types (KIP-1099). GROUP_ID_NOT_FOUND for a group of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Final
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import TOO_LARGE, AnswerBudget, text_bytes
from tailrace.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.consumer.describe import ConsumerGroupDescription, DescribedConsumer
from tailrace_coordinator.handlers.describe_groups import ALL_OPERATIONS

_GROUP = ConsumerGroupDescribeResponse.DescribedGroup
_MEMBER = _GROUP.Member
_ASSIGNMENT = _MEMBER.Assignment
_MEMBER_BYTES: Final = 96
_TOPIC_BYTES: Final = 32
_CLASSIC, _CONSUMER = 0, 1  # member types
_NO_OPERATIONS: Final = -(2**31)


async def handle(
    request: ConsumerGroupDescribeRequest, context: Context, coordinator: Coordinator
) -> ConsumerGroupDescribeResponse:
    """Answers epochs, members and their partitions; MESSAGE_TOO_LARGE for a group that the answer has no room for."""
    described = await coordinator.groups.ask_each(
        request.group_ids, lambda ids, groups, now_ms, token: groups.describe_consumer_groups(now_ms, token, ids)
    )
    count = sum(len(found.members) for found in described.values() if isinstance(found, ConsumerGroupDescription))
    work = partial(_response, request, described, coordinator.image)
    return await coordinator.large.over(len(request.group_ids) + count, work)


def _response(
    request: ConsumerGroupDescribeRequest,
    described: Mapping[str, ConsumerGroupDescription | ApiError],
    image: MetadataImage,
) -> ConsumerGroupDescribeResponse:
    budget = AnswerBudget()
    operations = _NO_OPERATIONS
    if request.include_authorized_operations:
        operations = sum(1 << operation for operation in ALL_OPERATIONS)
    groups = []
    for group_id in request.group_ids:
        found = described[group_id]
        if isinstance(found, ApiError):
            groups.append(_refused(group_id, found.code, found.message))
            continue
        members = [_member(member, image) for member in found.members]
        if budget.take(sum(size for _, size in members)):
            groups.append(_row(found, [row for row, _ in members], operations))
        else:
            groups.append(_refused(group_id, ErrorCode.MESSAGE_TOO_LARGE, TOO_LARGE))
    return ConsumerGroupDescribeResponse(groups=groups)


def _refused(group_id: str, code: ErrorCode, message: str | None) -> _GROUP:
    return _GROUP(
        group_id=group_id, error_code=code, error_message=message, group_state="", assignor_name="", members=[]
    )


def _row(found: ConsumerGroupDescription, members: list[_MEMBER], operations: int) -> _GROUP:
    return _GROUP(
        group_id=found.group_id,
        error_code=ErrorCode.NONE,
        group_state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=members,
        authorized_operations=operations,
    )


def _member(member: DescribedConsumer, image: MetadataImage) -> tuple[_MEMBER, int]:
    """The member's row, and about how many bytes it takes."""
    metadata = member.metadata
    topics = [_topics(partitions, image) for partitions in (member.owned, member.target)]
    row = _MEMBER(
        member_id=metadata.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.subscribed_topic_names),
        subscribed_topic_regex=metadata.subscribed_topic_regex or "",
        assignment=_ASSIGNMENT(topic_partitions=topics[0]),
        target_assignment=_ASSIGNMENT(topic_partitions=topics[1]),
        member_type=_CONSUMER if metadata.classic_member_metadata is None else _CLASSIC,
    )
    texts = (
        metadata.member_id,
        metadata.instance_id,
        metadata.rack_id,
        metadata.client_id,
        metadata.client_host,
        metadata.subscribed_topic_regex,
        *metadata.subscribed_topic_names,
    )
    size = _MEMBER_BYTES + sum(map(text_bytes, texts))
    rows = chain.from_iterable(topics)
    size += sum(_TOPIC_BYTES + text_bytes(topic.topic_name) + 4 * len(topic.partitions) for topic in rows)
    return row, size


def _topics(partitions: Mapping[UUID, Iterable[int]], image: MetadataImage) -> list[_ASSIGNMENT.TopicPartitions]:
    """The topics that there are, by their names."""
    row = _ASSIGNMENT.TopicPartitions
    found = ((topic_id, image.topic_names.get(topic_id), indexes) for topic_id, indexes in partitions.items())
    return [
        row(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
        for topic_id, name, indexes in found
        if name is not None
    ]

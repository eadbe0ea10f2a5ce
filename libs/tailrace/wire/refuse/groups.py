"""Refusals of the APIs about groups and their offsets."""

from __future__ import annotations

from tailrace.wire import messages as m
from tailrace.wire.refuse.partitions import by_partition

_TOPIC_AUTHORIZATION_FAILED = 29


def find_coordinator(
    request: m.FindCoordinatorRequest, version: int, code: int, message: str | None
) -> m.FindCoordinatorResponse:
    if version >= 4:
        one = m.FindCoordinatorResponse.Coordinator
        return m.FindCoordinatorResponse(
            coordinators=[
                one(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message or "")
                for key in request.coordinator_keys
            ]
        )
    return m.FindCoordinatorResponse(error_code=code, error_message=message, node_id=-1, host="", port=-1)


def join_group(request: m.JoinGroupRequest, version: int, code: int, message: str | None) -> m.JoinGroupResponse:
    return m.JoinGroupResponse(
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if version >= 7 else "",
        leader="",
        member_id=request.member_id or "",
        members=[],
    )


def describe_groups(
    request: m.DescribeGroupsRequest, version: int, code: int, message: str | None
) -> m.DescribeGroupsResponse:
    one = m.DescribeGroupsResponse.DescribedGroup
    return m.DescribeGroupsResponse(
        groups=[
            one(
                error_code=code,
                error_message=message,
                group_id=group,
                group_state="Dead" if version < 6 else "",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group in request.groups
        ]
    )


def consumer_group_describe(
    request: m.ConsumerGroupDescribeRequest, version: int, code: int, message: str | None
) -> m.ConsumerGroupDescribeResponse:
    one = m.ConsumerGroupDescribeResponse.DescribedGroup
    return m.ConsumerGroupDescribeResponse(
        groups=[
            one(error_code=code, error_message=message, group_id=group, group_state="", assignor_name="", members=[])
            for group in request.group_ids
        ]
    )


def delete_groups(
    request: m.DeleteGroupsRequest, version: int, code: int, message: str | None
) -> m.DeleteGroupsResponse:
    one = m.DeleteGroupsResponse.DeletableGroupResult
    return m.DeleteGroupsResponse(
        results=[one(group_id=g, error_code=code, error_message=message) for g in request.groups_names]
    )


def offset_fetch(request: m.OffsetFetchRequest, version: int, code: int, message: str | None) -> m.OffsetFetchResponse:
    if version >= 8:
        group = m.OffsetFetchResponse.OffsetFetchResponseGroup
        return m.OffsetFetchResponse(
            groups=[group(group_id=asked.group_id, topics=[], error_code=code) for asked in request.groups]
        )
    if version >= 2:
        return m.OffsetFetchResponse(topics=[], error_code=code)
    # Only partitions have a code: without it the group looks like one without offsets, and is read from the start.
    topic = m.OffsetFetchResponse.OffsetFetchResponseTopic
    build = by_partition(
        m.OffsetFetchResponse,
        topic,
        topic.OffsetFetchResponsePartition,
        "partition_index",
        committed_offset=-1,
        metadata="",
    )
    return build(request, version, code, message)


def offset_delete(
    request: m.OffsetDeleteRequest, version: int, code: int, message: str | None
) -> m.OffsetDeleteResponse:
    """A topic that may not be read is refused by its partitions, all else by the group."""
    if code != _TOPIC_AUTHORIZATION_FAILED:
        return m.OffsetDeleteResponse(error_code=code, topics=[])
    topic = m.OffsetDeleteResponse.OffsetDeleteResponseTopic
    row = topic.OffsetDeleteResponsePartition
    topics = [
        topic(
            name=asked.name,
            partitions=[row(partition_index=one.partition_index, error_code=code) for one in asked.partitions],
        )
        for asked in request.topics
    ]
    return m.OffsetDeleteResponse(error_code=0, topics=topics)

"""OffsetFetch v1-10.

v2 null topics: all of the group's. v7 require_stable (KIP-447; nothing is unstable without transactions). v8 several
groups (KIP-709). v9 member epoch (KIP-848). v10 topic ids (KIP-1103). A partition, or a whole group, that nobody knows
is offset -1 without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.records.groups import OffsetCommitted
from tailrace.wire.messages import OffsetFetchRequest, OffsetFetchResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.offsets import TopicPartition
from tailrace_coordinator.handlers.offset_commit import find_topic

Found = Mapping[TopicPartition, OffsetCommitted]

_GROUP = OffsetFetchResponse.OffsetFetchResponseGroup


async def handle(request: OffsetFetchRequest, context: Context, coordinator: Coordinator) -> OffsetFetchResponse:
    """Answers committed offsets, leader epochs and metadata."""
    if context.api_version >= 8:
        groups = [_group(asked, context.api_version, coordinator) for asked in request.groups]
        return OffsetFetchResponse(groups=list(await asyncio.gather(*groups)))
    found = await _fetch(coordinator, request.group_id, request.topics)
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    rows = _all(found) if request.topics is None else [(t.name, t.partition_indexes) for t in request.topics]
    return OffsetFetchResponse(
        error_code=ErrorCode.NONE,
        topics=[
            topic(
                name=name,
                partitions=[_partition(topic.OffsetFetchResponsePartition, found, name, index) for index in indexes],
            )
            for name, indexes in rows
        ],
    )


async def _group(asked: Any, version: int, coordinator: Coordinator) -> Any:
    """One group of v8+, its refusal in its own row."""
    by_id = version >= 10
    names = [find_topic(coordinator.image, t, by_id=True)[0] for t in asked.topics or ()] if by_id else []
    if None in names:
        if not await coordinator.caught_up():
            return _GROUP(group_id=asked.group_id, topics=[], error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        names = [find_topic(coordinator.image, t, by_id=True)[0] for t in asked.topics]
    try:
        wanted = asked.topics
        if by_id and asked.topics is not None:
            wanted = [
                _Wanted(topic.name, t.partition_indexes)
                for t, topic in zip(asked.topics, names, strict=True)
                if topic is not None
            ]
        found = await _fetch(coordinator, asked.group_id, wanted)
    except ApiError as refused:
        return _GROUP(group_id=asked.group_id, topics=[], error_code=refused.code)
    if asked.topics is None:
        topics = [_topic(coordinator, name, None, indexes, found) for name, indexes in _all(found)]
    elif by_id:
        topics = [
            _topic(coordinator, None if topic is None else topic.name, t.topic_id, t.partition_indexes, found)
            for t, topic in zip(asked.topics, names, strict=True)
        ]
    else:
        topics = [_topic(coordinator, t.name, None, t.partition_indexes, found) for t in asked.topics]
    if by_id and asked.topics is None:
        topics = [row for row in topics if row.topic_id is not None]  # offsets of topics deleted since have no id
    return _GROUP(group_id=asked.group_id, topics=topics, error_code=ErrorCode.NONE)


class _Wanted:
    """A topic asked for by id, under its name."""

    __slots__ = ("name", "partition_indexes")

    def __init__(self, name: str, partition_indexes: Sequence[int]) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


async def _fetch(coordinator: Coordinator, group_id: str, topics: Sequence[Any] | None) -> Found:
    wanted = None if topics is None else [(t.name, index) for t in topics for index in t.partition_indexes]
    found: Found = await coordinator.ask(
        group_id, lambda groups, now_ms, token: groups.fetch_offsets(now_ms, token, group_id, wanted)
    )
    return {key: offset for key, offset in found.items() if not _is_of_another(coordinator, offset)}


def _is_of_another(coordinator: Coordinator, offset: OffsetCommitted) -> bool:
    """Whether the offset was committed for a topic of that name that was deleted since and created anew."""
    topic = coordinator.image.topic(offset.topic)
    return topic is not None and offset.topic_id is not None and offset.topic_id != topic.topic_id


def _all(found: Found) -> list[tuple[str, list[int]]]:
    indexes: dict[str, list[int]] = {}
    for name, index in found:
        indexes.setdefault(name, []).append(index)
    return list(indexes.items())


def _topic(coordinator: Coordinator, name: str | None, topic_id: Any, indexes: Sequence[int], found: Found) -> Any:
    row = _GROUP.OffsetFetchResponseTopics
    partition = row.OffsetFetchResponsePartitions
    if name is None:
        unknown = [
            partition(partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            for index in indexes
        ]
        return row(topic_id=topic_id, partitions=unknown)
    topic = coordinator.image.topic(name)
    known_id: Any = None if topic is None else topic.topic_id
    return row(
        name=name,
        topic_id=topic_id or known_id,
        partitions=[_partition(partition, found, name, index) for index in indexes],
    )


def _partition(row: Any, found: Found, name: str, index: int) -> Any:
    offset = found.get((name, index))
    if offset is None:
        return row(partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=0)
    return row(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=ErrorCode.NONE,
    )

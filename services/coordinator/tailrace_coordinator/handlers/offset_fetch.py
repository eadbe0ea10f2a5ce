"""OffsetFetch v1-10.

v2 null topics: all of the group's. v7 require_stable (KIP-447): UNSTABLE_OFFSET_COMMIT for a partition of which an open
transaction has an offset. v8 several groups (KIP-709). v9 member epoch (KIP-848). v10 topic ids (KIP-1103). A
partition, or a whole group, that nobody knows is offset -1 without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.coordination.group_records import OffsetCommitted
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import AnswerBudget, text_bytes
from tailrace.net.turns import turns
from tailrace.wire.messages import OffsetFetchRequest, OffsetFetchResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.machine import MANY
from tailrace_coordinator.handlers.offset_commit import find_topic

Found = Mapping[TopicPartition, OffsetCommitted | None]  # None: not stable

_GROUPS_AT_ONCE = 50
_ROW_BYTES = 32  # of one partition, short of its metadata
_GROUP = OffsetFetchResponse.OffsetFetchResponseGroup


async def handle(request: OffsetFetchRequest, context: Context, coordinator: Coordinator) -> OffsetFetchResponse:
    """Answers committed offsets, leader epochs and metadata; MESSAGE_TOO_LARGE for what it has no room for."""
    budget = AnswerBudget()
    if context.api_version >= 8:
        rows: list[Any] = []
        for first in range(0, len(request.groups), _GROUPS_AT_ONCE):
            some = request.groups[first : first + _GROUPS_AT_ONCE]
            rows += await asyncio.gather(
                *(_group(asked, context.api_version, coordinator, budget, request.require_stable) for asked in some)
            )
        return OffsetFetchResponse(groups=rows)
    found = await _fetch(coordinator, request, request.topics, require_stable=_stable(request, context))
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    if request.topics is None:
        rows = await _all(found)
    else:
        rows = [(t.name, t.partition_indexes) for t in request.topics]
    topics, size_bytes = [], 0
    async for name, indexes in turns(rows):
        partitions = [
            _partition(topic.OffsetFetchResponsePartition, found, name, index) async for index in turns(indexes)
        ]
        size_bytes += _size_bytes(partitions)
        topics.append(topic(name=name, partitions=partitions))
    if not budget.take(size_bytes):
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=topics)


def _stable(request: OffsetFetchRequest, context: Context) -> bool:
    return context.api_version >= 7 and bool(request.require_stable)


async def _group(asked: Any, version: int, coordinator: Coordinator, budget: AnswerBudget, require_stable: bool) -> Any:
    """One group of v8+, its refusal in its own row."""
    by_id = version >= 10
    names = _names(asked, coordinator.image) if by_id else []
    if None in names:
        latest = await coordinator.latest_image()
        if latest is None:
            return _GROUP(group_id=asked.group_id, topics=[], error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        names = _names(asked, latest)
    try:
        wanted = asked.topics
        if by_id and asked.topics is not None:
            wanted = [
                _Wanted(topic.name, t.partition_indexes)
                for t, topic in zip(asked.topics, names, strict=True)
                if topic is not None
            ]
        found = await _fetch(
            coordinator,
            asked,
            wanted,
            require_stable=require_stable,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
        )
    except ApiError as refused:
        return _GROUP(group_id=asked.group_id, topics=[], error_code=refused.code)
    rows: list[tuple[str | None, Any, Sequence[int]]]
    if asked.topics is None:
        rows = [(name, None, indexes) for name, indexes in await _all(found)]
    elif by_id:
        by_name = zip(asked.topics, names, strict=True)
        rows = [(None if topic is None else topic.name, t.topic_id, t.partition_indexes) for t, topic in by_name]
    else:
        rows = [(t.name, None, t.partition_indexes) for t in asked.topics]
    topics, size_bytes = [], 0
    async for name, topic_id, indexes in turns(rows):
        row = await _topic(coordinator, name, topic_id, indexes, found)
        if by_id and asked.topics is None and row.topic_id is None:
            continue  # offsets of topics deleted since have no id
        size_bytes += _size_bytes(row.partitions)
        topics.append(row)
    if not budget.take(size_bytes):
        return _GROUP(group_id=asked.group_id, topics=[], error_code=ErrorCode.MESSAGE_TOO_LARGE)
    return _GROUP(group_id=asked.group_id, topics=topics, error_code=ErrorCode.NONE)


def _names(asked: Any, image: MetadataImage) -> list[Any]:
    """The topics asked for by id, None for those that there are not."""
    return [find_topic(image, t, by_id=True)[0] for t in asked.topics or ()]


def _size_bytes(partitions: Sequence[Any]) -> int:
    """What the answer's rows take: the metadata is what clients wrote, of any length they may."""
    return sum(_ROW_BYTES + text_bytes(row.metadata) for row in partitions)


class _Wanted:
    """A topic asked for by id, under its name."""

    __slots__ = ("name", "partition_indexes")

    def __init__(self, name: str, partition_indexes: Sequence[int]) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


async def _fetch(
    coordinator: Coordinator,
    asked: Any,
    topics: Sequence[Any] | None,
    *,
    require_stable: bool,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> Found:
    """Of asked.group_id: of these partitions, or all; where very many are wanted there may be others among them."""
    wanted = None
    if topics is not None and sum(len(t.partition_indexes) for t in topics) <= MANY:
        wanted = [(t.name, index) for t in topics for index in t.partition_indexes]
    found: Found = await coordinator.groups.ask(
        asked,
        lambda groups, now_ms, token: groups.fetch_offsets(
            now_ms,
            token,
            asked.group_id,
            wanted,
            require_stable=require_stable,
            member_id=member_id,
            member_epoch=member_epoch,
        ),
    )
    return {key: offset async for key, offset in turns(found.items()) if not _is_of_another(coordinator, offset)}


def _is_of_another(coordinator: Coordinator, offset: OffsetCommitted | None) -> bool:
    """Whether the offset was committed for a topic of that name that was deleted since and created again."""
    if offset is None:
        return False
    topic = coordinator.image.topic(offset.topic)
    return topic is not None and offset.topic_id is not None and offset.topic_id != topic.topic_id


async def _all(found: Found) -> list[tuple[str, list[int]]]:
    indexes: dict[str, list[int]] = {}
    async for name, index in turns(found):
        indexes.setdefault(name, []).append(index)
    return list(indexes.items())


async def _topic(
    coordinator: Coordinator, name: str | None, topic_id: Any, indexes: Sequence[int], found: Found
) -> Any:
    row = _GROUP.OffsetFetchResponseTopics
    partition = row.OffsetFetchResponsePartitions
    if name is None:
        unknown = [
            partition(partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            async for index in turns(indexes)
        ]
        return row(topic_id=topic_id, partitions=unknown)
    topic = coordinator.image.topic(name)
    known_id: Any = None if topic is None else topic.topic_id
    return row(
        name=name,
        topic_id=topic_id or known_id,
        partitions=[_partition(partition, found, name, index) async for index in turns(indexes)],
    )


def _partition(row: Any, found: Found, name: str, index: int) -> Any:
    offset = found.get((name, index))
    if offset is None:
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT if (name, index) in found else ErrorCode.NONE
        return row(partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code)
    return row(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=ErrorCode.NONE,
    )

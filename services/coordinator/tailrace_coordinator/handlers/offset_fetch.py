"""OffsetFetch v1-10.

v2 null topics: all of the group's. v7 require_stable (KIP-447): UNSTABLE_OFFSET_COMMIT for a partition of which an open
transaction has an offset. v8 several groups (KIP-709). v9 member epoch (KIP-848). v10 topic ids (KIP-1103). A
partition, or a whole group, that nobody knows is offset -1 without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from tailrace.coordination.group_records import OffsetCommitted
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import AnswerBudget, text_bytes
from tailrace.state import ANSWERS_AT_ONCE
from tailrace.wire.messages import OffsetFetchRequest, OffsetFetchResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.offsets import is_of_another_topic
from tailrace_coordinator.handlers.offset_commit import find_topic

Found = Mapping[TopicPartition, OffsetCommitted | None]  # None: not stable
_Row = tuple[str | None, UUID | None, Sequence[int]]  # name and id of a topic, as far as they are known; partitions

_ROW_BYTES = 32  # of one partition, short of its metadata
_Asked = OffsetFetchRequest.OffsetFetchRequestGroup
_GROUP = OffsetFetchResponse.OffsetFetchResponseGroup
_GROUP_TOPIC = _GROUP.OffsetFetchResponseTopics
_GROUP_PARTITION = _GROUP_TOPIC.OffsetFetchResponsePartitions
_TOPIC = OffsetFetchResponse.OffsetFetchResponseTopic
_PARTITION = _TOPIC.OffsetFetchResponsePartition


async def handle(request: OffsetFetchRequest, context: Context, coordinator: Coordinator) -> OffsetFetchResponse:
    """Answers committed offsets, leader epochs and metadata; MESSAGE_TOO_LARGE for what it has no room for."""
    budget = AnswerBudget()
    if context.api_version >= 8:
        groups: list[_GROUP] = []
        for first in range(0, len(request.groups), ANSWERS_AT_ONCE):
            some = request.groups[first : first + ANSWERS_AT_ONCE]
            groups += await asyncio.gather(
                *(_group(asked, context.api_version, coordinator, budget, request.require_stable) for asked in some)
            )
        return OffsetFetchResponse(groups=groups)
    rows: list[_Row] | None = None
    if request.topics is not None:
        rows = [(t.name, None, t.partition_indexes) for t in request.topics]
    is_stable = context.api_version >= 7 and bool(request.require_stable)
    found = await _fetch(coordinator, request, rows, require_stable=is_stable)
    work = partial(_topics, coordinator.image, found, rows)
    topics, size_bytes = await coordinator.large.over(_count(found, rows), work)
    if not budget.take(size_bytes):
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=topics)


async def _group(
    asked: _Asked, version: int, coordinator: Coordinator, budget: AnswerBudget, require_stable: bool
) -> _GROUP:
    """One group of v8+, its refusal in its own row."""
    by_id = version >= 10
    rows = _rows(asked, coordinator.image, by_id=by_id)
    if rows is not None and any(name is None for name, _, _ in rows):
        latest = await coordinator.latest_image()
        if latest is None:
            return _GROUP(group_id=asked.group_id, topics=[], error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        rows = _rows(asked, latest, by_id=by_id)
    try:
        found = await _fetch(
            coordinator,
            asked,
            rows,
            require_stable=require_stable,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
        )
    except ApiError as refused:
        return _GROUP(group_id=asked.group_id, topics=[], error_code=refused.code)
    work = partial(_group_topics, coordinator.image, found, rows, by_id=by_id)
    topics, size_bytes = await coordinator.large.over(_count(found, rows), work)
    if not budget.take(size_bytes):
        return _GROUP(group_id=asked.group_id, topics=[], error_code=ErrorCode.MESSAGE_TOO_LARGE)
    return _GROUP(group_id=asked.group_id, topics=topics, error_code=ErrorCode.NONE)


def _rows(asked: _Asked, image: MetadataImage, *, by_id: bool) -> list[_Row] | None:
    """What is asked of a group, without the name of a topic that there is not; None: all there is."""
    if asked.topics is None:
        return None
    if not by_id:
        return [(t.name, None, t.partition_indexes) for t in asked.topics]
    found = ((t, find_topic(image, t, by_id=True)[0]) for t in asked.topics)
    return [(None if topic is None else topic.name, t.topic_id, t.partition_indexes) for t, topic in found]


def _count(found: Found, rows: list[_Row] | None) -> int:
    return len(found) if rows is None else sum(1 + len(indexes) for _, _, indexes in rows)


async def _fetch(
    coordinator: Coordinator,
    asked: OffsetFetchRequest | _Asked,
    rows: list[_Row] | None,
    *,
    require_stable: bool,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> Found:
    wanted = None
    if rows is not None:
        wanted = [(name, index) for name, _, indexes in rows if name is not None for index in indexes]
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
    return found


def _topics(image: MetadataImage, found: Found, rows: list[_Row] | None) -> tuple[list[_TOPIC], int]:
    """The rows of an answer up to v7, and what they take."""
    found = _current(image, found)
    topics = [
        _TOPIC(name=name or "", partitions=[_partition(_PARTITION, found, name, index) for index in indexes])
        for name, _, indexes in (_all(found) if rows is None else rows)
    ]
    return topics, _size_bytes(topics)


def _group_topics(
    image: MetadataImage, found: Found, rows: list[_Row] | None, *, by_id: bool
) -> tuple[list[_GROUP_TOPIC], int]:
    """The same of one group from v8 on."""
    found = _current(image, found)
    topics = []
    known_id: Any  # None up to v9, which have none
    for name, topic_id, indexes in _all(found) if rows is None else rows:
        topic = None if name is None else image.topic(name)
        if topic is None and by_id and rows is None:
            continue  # offsets of topics deleted since have no id
        known_id = topic_id or (None if topic is None else topic.topic_id)
        topics.append(
            _GROUP_TOPIC(
                name=name or "",
                topic_id=known_id,
                partitions=[_partition(_GROUP_PARTITION, found, name, index) for index in indexes],
            )
        )
    return topics, _size_bytes(topics)


def _current(image: MetadataImage, found: Found) -> Found:
    """Without the offsets that were committed for a topic of that name that was deleted since and created again."""
    return {key: offset for key, offset in found.items() if offset is None or not is_of_another_topic(image, offset)}


def _all(found: Found) -> list[_Row]:
    indexes: dict[str, list[int]] = {}
    for name, index in found:
        indexes.setdefault(name, []).append(index)
    return [(name, None, some) for name, some in indexes.items()]


def _size_bytes(topics: Sequence[_TOPIC] | Sequence[_GROUP_TOPIC]) -> int:
    """What the answer's rows take: the metadata is what clients wrote, of any length they may."""
    return sum(_ROW_BYTES + text_bytes(row.metadata) for topic in topics for row in topic.partitions)


def _partition(row: Any, found: Found, name: str | None, index: int) -> Any:
    if name is None:
        return row(partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID)
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

"""Consumer groups and their lag: ListGroups v5, DescribeGroups v6, ConsumerGroupDescribe v1, OffsetFetch v9."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.described_groups import DescribedGroup, constant_case, is_of_another_kind, of_classic, of_consumer
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.lag import PartitionLag, partition_lags
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.moves import portions
from tailrace.reading.next_records import next_timestamps, unread
from tailrace.wire.hot.list_offsets import LATEST, list_offsets_request
from tailrace.wire.messages import (
    ApiMessage,
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
)
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check, not_found

OFFSET_FETCH_BY_NAME = 9  # v10 addresses topics by id (KIP-848)
LIST_OFFSETS_VERSION = 7


async def list_groups(backend: AdminBackend) -> list[DescribedGroup]:
    """All groups, without their members, by id."""
    answers = await backend.ask_coordinators(ListGroupsRequest(states_filter=[], types_filter=[]))
    for answer in answers:
        check(answer.error_code)
    return await backend.run(partial(_by_id, answers))


def _by_id(answers: Iterable[ListGroupsResponse]) -> list[DescribedGroup]:
    found: dict[str, DescribedGroup] = {}
    for row in (row for answer in answers for row in answer.groups):
        state, kind = constant_case(row.group_state), constant_case(row.group_type or "classic")
        found[row.group_id] = DescribedGroup(row.group_id, state, kind, row.protocol_type, "", [])
    return [row for _, row in sorted(found.items())]


async def describe(backend: AdminBackend, group_id: str) -> DescribedGroup:
    """One group with its members; 404 for one that does not exist. State in upper case with underscores."""
    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False)
    (row,) = (await _ask(backend, group_id, request)).groups
    is_consumers = is_of_another_kind(row.error_message)
    if is_consumers:
        asked = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        (row,) = (await _ask(backend, group_id, asked)).groups
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not row.error_code and row.group_state == "Dead"):
        raise not_found(f"Consumer group {group_id} cannot be found.")
    check(row.error_code, row.error_message)
    found = of_consumer(row) if is_consumers else of_classic(row)
    return found._replace(state=constant_case(found.state))


async def delete(backend: AdminBackend, group_id: str) -> None:
    """Deletes an empty group."""
    (row,) = (await _ask(backend, group_id, DeleteGroupsRequest(groups_names=[group_id]))).results
    check(row.error_code)


async def _ask(backend: AdminBackend, group_id: str, request: ApiMessage) -> Any:
    try:
        return await backend.ask_group(group_id, request)
    except ApiError as refused:
        # The topic of the groups is made with the first of them; before that nobody coordinates and no group exists.
        if refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE and not backend.has_topic(GROUP_METADATA_TOPIC):
            raise not_found(f"Consumer group {group_id} cannot be found.") from None
        raise


async def lags(
    backend: AdminBackend, group: DescribedGroup, only: TopicPartition | None = None, *, read_committed: bool = False
) -> list[PartitionLag]:
    """The lag of every partition (or one) that the group has committed an offset for or reads, by topic and partition.

    read_committed: up to the last stable offset, else up to the high watermark.
    """
    offsets = {key: offset for key, offset in (await committed(backend, group.group_id)).items() if only in (None, key)}
    ends = await log_offsets(backend, offsets, read_committed=read_committed)
    leaders = {key: backend.leader(*key) for key in offsets}
    timestamps = await next_timestamps(backend.ask_broker, unread(leaders, offsets, ends))
    return partition_lags(group, offsets, ends, timestamps, only)


async def committed(backend: AdminBackend, group_id: str) -> dict[TopicPartition, int]:
    """The group's committed offsets on partitions that exist."""
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = OffsetFetchRequest(groups=[wanted], require_stable=False)
    (answer,) = (await backend.ask_group(group_id, request, OFFSET_FETCH_BY_NAME)).groups
    check(answer.error_code)
    offsets: dict[TopicPartition, int] = {}
    image = backend.image()
    for topic in answer.topics:
        for partition in topic.partitions:
            check(partition.error_code)
            if partition.committed_offset >= 0 and image.partition(topic.name, partition.partition_index) is not None:
                offsets[topic.name, partition.partition_index] = partition.committed_offset
    return offsets


async def log_offsets(
    backend: AdminBackend, wanted: Iterable[TopicPartition], timestamp: int = LATEST, *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """The offsets at a timestamp, asked of each leader once; LEADER_NOT_AVAILABLE where there is none."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic, partition in wanted:
        leader = backend.leader(topic, partition)
        if leader < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader.")
        by_leader[leader].append((topic, partition))

    async def ask(leader: int, pairs: list[TopicPartition]) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for portion in portions(dict.fromkeys(pairs)):
            topics = {topic: [index for index, _ in rows] for topic, rows in portion}
            request = list_offsets_request(topics, timestamp, read_committed=read_committed)
            for topic in (await backend.ask_broker(leader, request, LIST_OFFSETS_VERSION)).topics:
                for partition in topic.partitions:
                    check(partition.error_code)
                    offsets[topic.name, partition.partition_index] = partition.offset
        return offsets

    answers = await asyncio.gather(*(ask(leader, pairs) for leader, pairs in by_leader.items()))
    return {pair: offset for answer in answers for pair, offset in answer.items()}

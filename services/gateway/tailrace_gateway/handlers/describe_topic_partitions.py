"""DescribeTopicPartitions v0 (KIP-966): all topics or those named, in order of name, in pages.

At most response_partition_limit partitions (and never more than 2,000) come in one answer; next_cursor then names where
to go on. An empty list means all topics. A cursor before the first topic starts in the middle of it; where topics are
named it must be at one of them. Of all topics the answer has those that the client may describe; pages and cursors are
made of those alone. A partition without a leader says leader -1 and, unlike in Metadata, no error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import partial
from typing import Any

from tailrace.access.authorizer import Authorized
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.net.context import Context
from tailrace.net.large import MANY_ROWS
from tailrace.wire.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.handlers.operations import TOPIC_OPERATIONS_BITS
from tailrace_gateway.handlers.topics import Reach, legal

PARTITIONS_MAX = 2000
_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = _Topic.DescribeTopicPartitionsResponsePartition


async def handle(
    request: DescribeTopicPartitionsRequest, context: Context, gateway: Gateway
) -> DescribeTopicPartitionsResponse:
    session = context.connection.session
    may = session.authorized if session.restricted and not request.topics else None  # what is named was asked for
    work = partial(_answer, request, gateway, gateway.image, may)
    if not request.topics and len(gateway.image.topics) > MANY_ROWS:
        return await gateway.large.run(work)
    return await gateway.large.over_rows(request, work)


def _answer(
    request: DescribeTopicPartitionsRequest, gateway: Gateway, image: MetadataImage, may: Authorized | None
) -> DescribeTopicPartitionsResponse:
    cursor, reach = request.cursor, Reach(gateway, image)
    named = bool(request.topics)
    names = sorted((topic.name for topic in request.topics) if named else image.topics)
    start, at = 0, ("", 0)
    if cursor is not None:
        if cursor.partition_index < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the cursor's partition must not be negative")
        start = bisect_left(names, cursor.topic_name)
        if named and names[start : start + 1] != [cursor.topic_name]:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the cursor must be at one of the topics asked for")
        at = cursor.topic_name, cursor.partition_index
    known = (name for name in names[start:] if may is None or may(AclOperation.DESCRIBE, ResourceType.TOPIC, name))
    left = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    topics, next_cursor = _page(reach, image, known, at, left, named=named)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _page(
    reach: Reach, image: MetadataImage, names: Iterable[str], at: tuple[str, int], left: int, *, named: bool
) -> tuple[list[_Topic], Any]:
    """One page, and the cursor of the next one; at: the topic that does not begin with its first partition."""
    topics: list[_Topic] = []
    next_cursor = None
    for name in names:
        topic = image.topic(name)
        if topic is None:
            if named:  # a topic deleted between two pages of "all" is simply gone
                topics.append(_missing(name))
            continue
        if not left:
            next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        first = at[1] if name == at[0] else 0
        last = min(len(topic.partitions), first + left)
        topics.append(_described(reach, topic, first, last))
        left -= last - first
        if last < len(topic.partitions):
            next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=last)
            break
    return topics, next_cursor


def _missing(name: str) -> _Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _Topic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS_BITS,  # Kafka says so of a missing topic, too
        partitions=[],
    )


def _described(reach: Reach, topic: TopicImage, first: int, last: int) -> _Topic:
    partitions = []
    for number in range(first, last):
        partition = topic.partitions[number]
        partitions.append(
            _Partition(
                error_code=ErrorCode.NONE,
                partition_index=number,
                leader_id=reach.leader(partition)[0],
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.eligible_leader_replicas),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=reach.offline(partition),
            )
        )
    return _Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS_BITS,
        partitions=partitions,
    )

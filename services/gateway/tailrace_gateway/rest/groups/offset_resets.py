"""Resets of a group's committed offsets, by the rules of kafka-consumer-groups.sh: ListOffsets v7, OffsetCommit v8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.reading.offset_commits import OFFSET_COMMIT_BY_NAME, commit_requests
from tailrace.reading.offset_reset import NewOffset, OffsetReset, To, parse_datetime, parse_duration, plan
from tailrace.reading.topic_regex import matching_topics
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import RestError, check, plain, unknown_topic
from tailrace_gateway.rest.groups import kafka as groups
from tailrace_gateway.rest.groups.models import ResetWish
from tailrace_gateway.rest.topics.models import SomePartitions
from tailrace_gateway.rest.topics.named_partitions import named_partitions

_OF_A_NUMBER: Final = {"OFFSET": To.OFFSET, "SHIFT": To.SHIFT}
_OF_A_TIME: Final[Mapping[str, Callable[[str, int], int]]] = {
    "DATETIME": lambda text, now_ms: parse_datetime(text),
    "DURATION": lambda text, now_ms: max(0, now_ms - parse_duration(text)),
}


async def reset(backend: AdminBackend, group_id: str, wish: ResetWish, now_ms: int) -> list[NewOffset]:
    """The new offset of each partition, committed unless the wish is only to be validated."""
    try:
        if (await groups.describe(backend, group_id)).members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    except RestError as refused:
        if refused.status is not HTTPStatus.NOT_FOUND:  # a group begins with its offsets
            raise
        committed: dict[TopicPartition, int] = {}
    else:
        committed = await groups.committed(backend, group_id)
    try:
        wanted = _reset_of(wish, now_ms)
        partitions = await backend.run(partial(_partitions, backend.image(), wish, committed))
        found = {at: await groups.log_offsets(backend, partitions, at) for at in wanted.timestamps}
        rows = plan(wanted, partitions, committed, found)
    except ValueError as wrong:
        raise plain(HTTPStatus.BAD_REQUEST, f"Bad Request: {wrong}") from None
    if not wish.validate_only:
        await _commit(backend, group_id, {(row.topic, row.partition): row.new_offset for row in rows})
    return rows


def _reset_of(wish: ResetWish, now_ms: int) -> OffsetReset:
    """Raises ValueError for a value that does not fit."""
    if wish.to in _OF_A_NUMBER:
        if not isinstance(wish.value, int) or (wish.to == "OFFSET" and wish.value < 0):
            raise ValueError(f"value: {wish.to} takes a number")
        return OffsetReset(_OF_A_NUMBER[wish.to], wish.value)
    if wish.to in _OF_A_TIME:
        if not isinstance(wish.value, str):
            raise ValueError(f"value: {wish.to} takes a text")
        return OffsetReset(To.TIME, _OF_A_TIME[wish.to](wish.value, now_ms))
    if wish.value is not None:
        raise ValueError(f"value: {wish.to} takes none")
    if wish.to == "OFFSETS":
        return OffsetReset(To.FILE, offsets={(row.topic_name, row.partition_id): row.offset for row in wish.offsets})
    return OffsetReset(To[wish.to])


def _partitions(image: MetadataImage, wish: ResetWish, committed: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """Raises ValueError, and RestError for a topic or partition that does not exist."""
    names_others = bool(wish.topics or wish.topic_regex is not None)
    if (wish.to == "OFFSETS") is not bool(wish.offsets) or (wish.offsets and names_others):
        raise ValueError("offsets: OFFSETS takes them, and no topics")
    found = {(row.topic_name, row.partition_id) for row in wish.offsets}
    found |= named_partitions(image, wish.topics)
    if wish.topic_regex is not None:
        matching = matching_topics(wish.topic_regex, image.topics)
        found |= named_partitions(image, [SomePartitions(topic_name=name) for name in matching])
    if not wish.offsets and not names_others:
        found = set(committed)
    if any(image.partition(*key) is None for key in found):
        raise unknown_topic()
    if not found:
        raise ValueError("the group has committed no offset; topics says which partitions are meant")
    return found


async def _commit(backend: AdminBackend, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """As a client that is no member; the coordinator refuses it where there are any."""
    for request in commit_requests(group_id, offsets):
        for done in (await backend.ask_group(group_id, request, OFFSET_COMMIT_BY_NAME)).topics:
            for part in done.partitions:
                # What Kafka answers to a commit by no member of a group that has some.
                is_busy = part.error_code == ErrorCode.UNKNOWN_MEMBER_ID
                check(ErrorCode.NON_EMPTY_GROUP if is_busy else part.error_code)

"""The timestamps of the records that a group reads next: a Fetch of the first batch from its position on.

Batches of transaction markers, and offsets that compaction or retention took away, are passed over: they hold nothing
to read. Bounded: a request names PARTITIONS_MAX partitions and is answered with about FETCH_BYTES, and each leader is
asked so many times at most. What is not found within that is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.lag import NOTHING_TO_READ
from tailrace.net.client import Disconnected
from tailrace.reading.start import EARLIEST_TIMESTAMP
from tailrace.records.batch import BatchHeader, read_header, whole_batches
from tailrace.records.record import Record, iterate
from tailrace.wire.codec import Malformed
from tailrace.wire.hot.list_offsets import list_offsets_request
from tailrace.wire.messages import ApiMessage, FetchRequest

PARTITIONS_MAX: Final = 500
REQUESTS_MAX: Final = 200  # to one leader
FETCH_BYTES: Final = 1 << 20
_PARTITION_BYTES: Final = 1 << 14  # a batch of most producers; a larger one comes where it is the first of an answer
_FETCH_VERSION: Final = 12  # the last one by topic name
_LIST_OFFSETS_VERSION: Final = 7
_EXACT_MS: Final = 1000  # records of one batch are told apart where their times differ by more
_FAILURES: Final = (ApiError, Disconnected, OSError, TimeoutError, Malformed)
Leader = TypeVar("Leader", bound=Hashable)
Answer = Awaitable[Any]
AskLeader = Callable[[Leader, ApiMessage, int], Answer]


class Unread(NamedTuple):
    """The offsets of one partition from a group's position up to the end."""

    offset: int
    end: int


def unread(
    leaders: Mapping[TopicPartition, Leader],
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[Leader, dict[TopicPartition, Unread]]:
    """The partitions with a lag, by the leader that knows their records."""
    found: dict[Leader, dict[TopicPartition, Unread]] = {}
    for key, offset in committed.items():
        if key in leaders and offset < ends.get(key, offset):
            found.setdefault(leaders[key], {})[key] = Unread(offset, ends[key])
    return found


async def next_timestamps(
    ask: AskLeader[Leader],
    rows: Mapping[Leader, Mapping[TopicPartition, Unread]],
    requests_max: int = REQUESTS_MAX,
) -> dict[TopicPartition, int]:
    """By partition the timestamp of the first record in its unread offsets, NOTHING_TO_READ if they hold no record.

    A partition whose leader does not answer in time, or refuses, is left out.
    """
    found: dict[TopicPartition, int] = {}

    async def search(leader: Leader, some: Mapping[TopicPartition, Unread]) -> None:
        left = dict(some)
        try:
            for _ in range(requests_max):
                if not left:
                    return
                await _look(lambda message, version: ask(leader, message, version), left, found)
        except _FAILURES:
            return

    await asyncio.gather(*(search(leader, some) for leader, some in rows.items()))
    return found


async def _look(
    ask: Callable[[ApiMessage, int], Answer],
    left: dict[TopicPartition, Unread],
    found: dict[TopicPartition, int],
) -> None:
    """One Fetch. The first partition of it is looked at for sure, as its batch comes whatever its size."""
    asked = dict(islice(left.items(), PARTITIONS_MAX))
    answer = await ask(_fetch_request(asked), _FETCH_VERSION)
    if answer.error_code:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    rows = {(topic.topic, row.partition_index): row for topic in answer.responses for row in topic.partitions}
    below = [key for key, row in rows.items() if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE]
    starts = await _log_starts(ask, below) if below else {}
    for number, (key, (offset, end)) in enumerate(asked.items()):
        row = rows.get(key)
        timestamp_ms = None
        if key in starts:
            reached = starts[key]
        elif row is None or row.error_code:
            reached = offset
        else:
            timestamp_ms, reached = first_timestamp(row.records or b"", offset)
        if timestamp_ms is not None:
            if timestamp_ms >= 0:  # a record may have none
                found[key] = timestamp_ms
        elif reached >= end:
            found[key] = NOTHING_TO_READ
        elif reached > offset:
            left[key] = Unread(reached, end)
            continue
        elif number and row is not None and not row.error_code:
            continue  # the answer had no room for it
        del left[key]


def first_timestamp(records: bytes | memoryview, offset: int) -> tuple[int | None, int]:
    """The timestamp of the first record from an offset on, to a second, and the offset up to which there is none."""
    for batch in whole_batches(records):
        header = read_header(batch)
        if header.next_offset <= offset:
            continue
        if not header.is_control and (timestamp_ms := _in_batch(header, batch, offset)) is not None:
            return timestamp_ms, offset
        offset = header.next_offset
    return None, offset


def _in_batch(header: BatchHeader, batch: memoryview, offset: int) -> int | None:
    """None where no record of the batch is left from the offset on."""
    is_whole = header.record_count == header.last_offset_delta + 1
    if is_whole and header.is_log_append_time:
        return header.max_timestamp
    if is_whole and not header.has_delete_horizon and header.max_timestamp - header.base_timestamp < _EXACT_MS:
        return header.base_timestamp
    records: Iterable[Record] = iterate(batch)
    return next((record.timestamp for record in records if record.offset >= offset), None)


def _fetch_request(asked: Mapping[TopicPartition, Unread]) -> FetchRequest:
    row = FetchRequest.FetchTopic
    topics: dict[str, list[FetchRequest.FetchTopic.FetchPartition]] = {}
    for (name, index), position in asked.items():
        part = row.FetchPartition(
            partition=index,
            current_leader_epoch=-1,
            fetch_offset=position.offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=_PARTITION_BYTES,
        )
        topics.setdefault(name, []).append(part)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[row(topic=name, partitions=parts) for name, parts in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
    )


async def _log_starts(
    ask: Callable[[ApiMessage, int], Answer], keys: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    topics: dict[str, list[int]] = {}
    for name, index in keys:
        topics.setdefault(name, []).append(index)
    answer = await ask(list_offsets_request(topics, EARLIEST_TIMESTAMP), _LIST_OFFSETS_VERSION)
    return {
        (topic.name, part.partition_index): part.offset
        for topic in answer.topics
        for part in topic.partitions
        if not part.error_code
    }

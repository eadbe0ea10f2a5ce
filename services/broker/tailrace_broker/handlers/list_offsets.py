"""ListOffsets v1-11. v4: leader epochs. v7: max timestamp (KIP-734). v8: earliest local (KIP-405). v9: latest tiered
(KIP-1005). v11: earliest pending upload (KIP-1023). Without tiered storage local is all there is and tiered nothing.

A topic asked for in several places is answered in one, and a partition asked for twice is INVALID_REQUEST, once.
Timeouts (v10) are for tiered storage, as in Kafka.

At read_committed the log ends at the last stable offset. A consumer's questions for the ends of its partitions are
answered at once, ahead of the ordinary handler, and so are those by time where what tells is in memory and little. The
rest is looked for by threads (fetch/lookups.py), some partitions of a request at a time: anything that changes the
files meanwhile has it done again, and OFFSET_NOT_AVAILABLE has the client ask again after a few times.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.background_lookup import Search
from tailrace.log.lookup import find_in_haste
from tailrace.log.read import NeedsPages, NeedsScan, TimestampOffset
from tailrace.net.context import Context, HotConnection
from tailrace.net.dispatch import ORDINARY, HotAnswer
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.hot.list_offsets import (
    AskedOffsets,
    FoundOffset,
    WantedOffset,
    decode_list_offsets,
    encode_found,
    encode_list_offsets_answer,
    encode_list_offsets_body,
)
from tailrace.wire.messages import ListOffsetsRequest
from tailrace_broker.fetch.lookups import LogChanged
from tailrace_broker.handlers.rows import each_row, partition_rows

if TYPE_CHECKING:
    from tailrace_broker.fetch.lookups import Lookups
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics

_READ_COMMITTED = 1
# How often a lookup is done: each time files of the log were cut, replaced or deleted under the last one.
_MOST_TRIES = 4
_MOST_SEARCHED = 8  # partitions, at once: about a millisecond
_MOST_ROWS = 500  # of ends that are answered at once
_THREADS_EACH = 3  # of the four, for one request: with one left, others wait for no more than a lookup
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_ENDS = frozenset({LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NEVER = 1 << 15  # any other negative time means nothing, in no version


class EndsPath:
    """ListOffsets that can be answered at once, on one broker's hot path."""

    def __init__(self, topics: Topics, before: Callable[[], None]) -> None:
        """`before` makes appends of the same read count, which came first."""
        self._topics = topics
        self._before = before

    def handle(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> HotAnswer:
        """The answer's buffers, or ORDINARY for what has to be looked for by a thread, or is asked in another way."""
        decoded = None if connection.session.restricted else decode_list_offsets(version, body)
        if decoded is None:
            return ORDINARY
        committed, asked = decoded[0] == _READ_COMMITTED, decoded[1]
        searches = [want for _, rows in asked for want in rows if want.timestamp not in (LATEST, EARLIEST)]
        if len(searches) > _MOST_SEARCHED or sum(len(rows) for _, rows in asked) > _MOST_ROWS:
            return ORDINARY
        if _repeats(asked) or self._opens_many(asked):
            return ORDINARY
        self._before()
        topics = []
        for name, rows in asked:
            found = [_answer(self._topics, name, want, committed, version) for want in rows]
            known = [one for one in found if one is not None]
            if len(known) < len(found):
                return ORDINARY
            topics.append((name, known))
        return [encode_list_offsets_answer(version, correlation_id, topics)]

    def _opens_many(self, asked: AskedOffsets) -> bool:
        """Whether it is the first use of more logs than others should wait for."""
        if sum(len(rows) for _, rows in asked) <= _MOST_SEARCHED:
            return False
        led = (self._topics.leading(name, want.partition, by_id=False)[0] for name, rows in asked for want in rows)
        return sum(partition is not None and partition.opened is None for partition in led) > _MOST_SEARCHED


def _repeats(asked: AskedOffsets) -> bool:
    if len({name for name, _ in asked}) < len(asked):
        return True
    return any(len({want.partition for want in rows}) < len(rows) for _, rows in asked)


async def handle(request: ListOffsetsRequest, context: Context, topics: Topics, lookups: Lookups) -> EncodeBuffer:
    """One row per asked partition; errors are per partition."""
    version, committed = context.api_version, request.isolation_level == _READ_COMMITTED
    asked = [  # a topic that is named twice is one by now (wire/repeats.py)
        (topic.name.encode(), WantedOffset(row.partition_index, row.current_leader_epoch, row.timestamp))
        async for topic, row in partition_rows(request.topics)
    ]
    times = Counter((name, wanted.partition) for name, wanted in asked)
    found: dict[tuple[bytes, int], FoundOffset | None] = {}  # None: a thread has to look
    async for name, wanted in each_row(asked):
        place = name, wanted.partition
        if times[place] > 1:
            found[place] = FoundOffset(wanted.partition, int(ErrorCode.INVALID_REQUEST), -1, -1, -1)
        else:
            found[place] = _answer(topics, name, wanted, committed, version)
    left = [(name, wanted) for name, wanted in asked if found[name, wanted.partition] is None]
    waiting = iter(left)

    async def look_up() -> None:
        for name, wanted in waiting:
            found[name, wanted.partition] = await _look_up(topics, lookups, name, wanted, committed, version)

    async with asyncio.TaskGroup() as group:
        for _ in left[:_THREADS_EACH]:
            group.create_task(look_up())
    rows: dict[bytes, list[bytes]] = {topic.name.encode(): [] for topic in request.topics}
    async for (name, _), one in each_row(found.items()):
        assert one is not None
        rows[name].append(encode_found(version, one))
    body = EncodeBuffer()
    body += encode_list_offsets_body(version, list(rows.items()))
    return body


async def _look_up(
    topics: Topics, lookups: Lookups, topic: bytes, wanted: WantedOffset, committed: bool, version: int
) -> FoundOffset:
    """What is found in the log by its timestamps, which a thread reads meanwhile (fetch/lookups.py)."""
    code: int = _not_available(version)
    try:
        for _ in range(_MOST_TRIES):
            with suppress(LogChanged):
                found = await _found_in(topics, lookups, topic, wanted, committed, version)
                return FoundOffset(wanted.partition, 0, *found)
    except ApiError as refusal:
        code = refusal.code
    except OSError:
        code = ErrorCode.KAFKA_STORAGE_ERROR
    return FoundOffset(wanted.partition, int(code), -1, -1, -1)


def _answer(topics: Topics, topic: bytes, wanted: WantedOffset, committed: bool, version: int) -> FoundOffset | None:
    """What can be said at once; None where a thread has to look."""
    code: int = ErrorCode.KAFKA_STORAGE_ERROR
    try:
        partition = _led(topics, topic, wanted, version)
        if wanted.timestamp in _ENDS:
            return FoundOffset(wanted.partition, 0, *_end(partition, wanted.timestamp, committed, version))
        hit = find_in_haste(partition.log, _searched(wanted.timestamp), partition.visible_end(committed))
        if isinstance(hit, NeedsPages | NeedsScan):
            return None
        return FoundOffset(wanted.partition, 0, *_found(partition, hit, version))
    except ApiError as refusal:
        code = refusal.code
    except OSError:
        pass
    return FoundOffset(wanted.partition, int(code), -1, -1, -1)


def _led(topics: Topics, topic: bytes, wanted: WantedOffset, version: int) -> Partition:
    """The partition, if it is led here in the epoch that the client knows. Raises ApiError."""
    partition, refused = topics.leading(topic, wanted.partition, by_id=False)
    if partition is None:
        raise ApiError(ErrorCode(refused))
    partition.check_epoch(wanted.current_leader_epoch)
    if wanted.timestamp < 0 and version < _SINCE.get(wanted.timestamp, _NEVER):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return partition


def _end(partition: Partition, timestamp: int, committed: bool, version: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) of an end of the log, each -1 where there is none. Raises ApiError, OSError.

    committed: below the last stable offset, as who reads at read_committed sees it.
    """
    log = partition.log
    if timestamp == LATEST:
        _check_settled(partition, version)
        return -1, partition.visible_end(committed), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        # An epoch begins when its leader does (KIP-101): of an empty log that is the present one's.
        return -1, start, log.epochs.epoch_at(start) if start < log.log_end_offset else partition.leader_epoch
    return -1, -1, -1


async def _found_in(
    topics: Topics, lookups: Lookups, topic: bytes, wanted: WantedOffset, committed: bool, version: int
) -> tuple[int, int, int]:
    """As _end, of a record that a thread looks for. Raises LogChanged, ApiError, OSError."""
    partition = _led(topics, topic, wanted, version)
    log = partition.log
    hit = await lookups.find(Search(log, _searched(wanted.timestamp), partition.visible_end(committed)))
    if _led(topics, topic, wanted, version) is not partition or partition.opened is not log:
        raise LogChanged
    return _found(partition, hit, version)


def _searched(timestamp: int) -> int | None:
    return None if timestamp == MAX_TIMESTAMP else timestamp


def _found(partition: Partition, hit: TimestampOffset | None, version: int) -> tuple[int, int, int]:
    if hit is None:
        _check_settled(partition, version)
        return -1, -1, -1
    return hit.timestamp, hit.offset, hit.leader_epoch


def _check_settled(partition: Partition, version: int) -> None:
    """KIP-207: a new leader does not know yet how much of its log is committed, and end offsets never go back."""
    if not partition.settled:
        raise ApiError(_not_available(version))


def _not_available(version: int) -> ErrorCode:
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE

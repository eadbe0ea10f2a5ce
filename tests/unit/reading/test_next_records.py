"""The timestamps of the records that a group reads next, of logs in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.lag import NOTHING_TO_READ
from tailrace.net.client import Disconnected
from tailrace.reading import next_records
from tailrace.reading.next_records import Unread, first_timestamp, next_timestamps
from tailrace.records.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, pack, read_header
from tailrace.records.compression import Codec
from tailrace.records.entries import plain_records
from tailrace.records.record import Record, build
from tailrace.wire import messages as m

Key = tuple[str, int]


def batch(base: int, *timestamps: int, codec: Codec = Codec.NONE) -> bytes:
    return bytes(
        build([Record(timestamp=time, value=b"v") for time in timestamps], base_offset=base, compression=codec)
    )


def marked(data: bytes, attributes: int, **fields: int) -> bytes:
    header = read_header(data)
    changed = header._replace(attributes=header.attributes | attributes, **fields)
    return bytes(pack(changed, plain_records(header, data)))


MARKER = marked(batch(2, 9_000), CONTROL)


@pytest.mark.parametrize(
    ("records", "offset", "expected"),
    [
        (batch(0, 5_000, 5_400), 0, (5_000, 0)),
        (batch(0, 5_000, 5_400), 1, (5_000, 1)),  # to a second
        (batch(0, 5_000, 9_000, codec=Codec.ZSTD), 1, (9_000, 1)),
        (batch(0, 5_000, 5_400) + batch(2, 7_000), 2, (7_000, 2)),
        (MARKER, 2, (None, 3)),
        (MARKER + batch(3, 9_500), 2, (9_500, 3)),
        (marked(batch(0, 5_000), LOG_APPEND_TIME, max_timestamp=8_000), 0, (8_000, 0)),
        (marked(batch(0, 0, 400), DELETE_HORIZON, base_timestamp=70), 1, (470, 1)),
        (marked(batch(0, 5_000), 0, last_offset_delta=3), 1, (None, 4)),  # compaction left the first record alone
        (batch(0, 5_000)[:-1], 0, (None, 0)),
        (b"", 7, (None, 7)),
    ],
)
def test_the_first_record_from_an_offset_on(records: bytes, offset: int, expected: tuple[int | None, int]) -> None:
    assert first_timestamp(records, offset) == expected


class Leader:
    """Answers one batch of each partition as far as there is room, the first whatever its size."""

    def __init__(self, logs: dict[Key, list[bytes]], start: int = 0, room: int = 1 << 20) -> None:
        self.logs = logs
        self.start = start
        self.room = room
        self.fetched: list[int] = []
        self.fails: Exception | None = None

    async def __call__(self, leader: int, message: Any, version: int) -> Any:
        if self.fails is not None:
            raise self.fails
        if isinstance(message, m.ListOffsetsRequest):
            return self._list_offsets(message)
        self.fetched.append(sum(len(topic.partitions) for topic in message.topics))
        left, first = self.room, True
        topics = []
        for topic in message.topics:
            rows = []
            for part in topic.partitions:
                code, records = self._read((topic.topic, part.partition), part.fetch_offset)
                if len(records) > left and not first:
                    records = b""
                left -= len(records)
                first = False
                row = m.FetchResponse.FetchableTopicResponse.PartitionData
                rows.append(row(partition_index=part.partition, error_code=code, records=records))
            topics.append(m.FetchResponse.FetchableTopicResponse(topic=topic.topic, partitions=rows))
        return m.FetchResponse(error_code=0, responses=topics)

    def _read(self, key: Key, offset: int) -> tuple[int, bytes]:
        if key not in self.logs:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        if offset < self.start:
            return ErrorCode.OFFSET_OUT_OF_RANGE, b""
        return 0, next((data for data in self.logs[key] if read_header(data).next_offset > offset), b"")

    def _list_offsets(self, message: Any) -> Any:
        topic = m.ListOffsetsResponse.ListOffsetsTopicResponse
        row = topic.ListOffsetsPartitionResponse
        return m.ListOffsetsResponse(
            topics=[
                topic(name=t.name, partitions=[row(partition_index=p.partition_index, offset=self.start)])
                for t in message.topics
                for p in t.partitions
            ]
        )


async def found(leader: Leader, unread: dict[Key, Unread], most: int = 10) -> dict[Key, int]:
    return await next_timestamps(leader, {0: unread}, most)


async def test_markers_are_passed_over_to_the_next_record_or_to_the_end() -> None:
    logs = {("t", 0): [batch(0, 1, 1), MARKER, batch(3, 9_500)], ("t", 1): [batch(0, 1, 1), MARKER]}
    leader = Leader(logs)
    assert await found(leader, {("t", 0): Unread(2, 4), ("t", 1): Unread(2, 3)}) == {
        ("t", 0): 9_500,
        ("t", 1): NOTHING_TO_READ,
    }
    assert leader.fetched == [2, 1]


async def test_a_position_that_retention_overtook_reads_from_the_log_start_on() -> None:
    leader = Leader({("t", 0): [batch(5, 7_000)], ("t", 1): []}, start=5)
    assert await found(leader, {("t", 0): Unread(1, 6), ("t", 1): Unread(1, 5)}) == {
        ("t", 0): 7_000,
        ("t", 1): NOTHING_TO_READ,
    }


async def test_each_look_serves_the_first_partition_whatever_the_size_of_its_batch() -> None:
    leader = Leader({("t", n): [batch(0, 1_000 + n)] for n in range(3)}, room=1)
    assert await found(leader, {("t", n): Unread(0, 1) for n in range(3)}) == {("t", n): 1_000 + n for n in range(3)}
    assert leader.fetched == [3, 2, 1]


async def test_requests_are_bounded_and_the_rest_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_records, "PARTITIONS_MAX", 2)
    leader = Leader({("t", n): [batch(0, 1_000 + n)] for n in range(5)})
    unread = {("t", n): Unread(0, 1) for n in range(5)}
    assert await found(leader, unread, 2) == {("t", n): 1_000 + n for n in range(4)}
    assert leader.fetched == [2, 2]


@pytest.mark.parametrize("failure", [Disconnected("gone"), TimeoutError(), ApiError(ErrorCode.BROKER_NOT_AVAILABLE)])
async def test_a_timestamp_is_unknown_where_the_leader_fails_or_refuses_or_the_record_has_none(
    failure: Exception,
) -> None:
    leader = Leader({("t", 0): [batch(0, 1_000)], ("t", 2): [batch(0, -1)]})
    assert await found(leader, {("t", n): Unread(0, 1) for n in range(3)}) == {("t", 0): 1_000}
    leader.fails = failure
    assert await found(leader, {("t", 0): Unread(0, 1)}) == {}

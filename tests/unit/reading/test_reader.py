"""A reader of a topic against a cluster of messages: leaders that move or are away, ends, gaps, and its patience."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from support.reading import PATIENCE_MS, Clock, Cluster, reader
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.client import Disconnected
from tailrace.reading.cursor import Cursor
from tailrace.reading.reader import Gap, TopicReader
from tailrace.reading.start import EARLIEST, LATEST, LATEST_TIMESTAMP, Start


async def read(found: TopicReader) -> list[tuple[int, bytes | None]]:
    """All records up to the ends of the cursors."""
    records: list[tuple[int, bytes | None]] = []
    while not found.done:
        records += [(partition, record.value) for partition, record in await found.poll(0)]
    await found.close()
    return records


async def test_all_partitions_are_read_to_the_ends_of_the_beginning() -> None:
    cluster = Cluster(2, 1, 0)
    found = reader(cluster)
    found.assign(await found.find(EARLIEST, until=LATEST_TIMESTAMP))
    cluster.ends = [9, 9, 9]
    assert sorted(await read(found)) == [(0, b"0"), (0, b"1"), (1, b"0")]


async def test_very_many_partitions_are_read_with_several_requests() -> None:
    cluster = Cluster(*[0] * 24_001, 1)
    cluster.leaders = [0] * 24_002
    found = reader(cluster)
    found.assign(await found.find(EARLIEST))
    while not (arrived := [record.value for _, record in await found.poll(0)]):
        assert len(cluster.fetched) < 3
    await found.close()
    assert arrived == [b"0"]
    assert max(cluster.rows) == 10_000


async def test_the_last_records_of_one_partition_are_read() -> None:
    found = reader(Cluster(5, 5))
    found.assign(await found.find(Start(back=2), until=LATEST_TIMESTAMP, partitions=[1]))
    assert await read(found) == [(1, b"3"), (1, b"4")]


async def test_a_leader_that_moves_is_followed() -> None:
    cluster = Cluster(2)
    found = reader(cluster)
    found.assign(await found.find(EARLIEST, until=LATEST_TIMESTAMP))
    assert [record.value for _, record in await found.poll(0)] == [b"0"]
    cluster.leaders, cluster.codes = [1], [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert await read(found) == [(0, b"1")]
    assert cluster.fetched == [0, 0, 1]


async def test_records_of_another_topic_with_the_name_are_not_read() -> None:
    cluster, topic_id = Cluster(1), UUID(int=7)
    found = TopicReader(cluster, Clock(), "t", patience_ms=PATIENCE_MS, topic_id=topic_id)
    found.assign(await found.find(EARLIEST, until=LATEST_TIMESTAMP))
    cluster.codes = [ErrorCode.UNKNOWN_TOPIC_ID]
    with pytest.raises(ApiError, match="t-0"):
        await found.poll(0)
    assert cluster.topic_ids == [topic_id]


async def test_a_node_that_went_away_is_asked_again() -> None:
    cluster = Cluster(1)
    cluster.fails = [Disconnected("gone"), TimeoutError("late")]
    found = reader(cluster)
    found.assign(await found.find(EARLIEST, until=LATEST_TIMESTAMP))
    assert await read(found) == [(0, b"0")]


async def test_a_bootstrap_address_that_is_away_for_a_moment_does_not_end_the_reading() -> None:
    cluster = Cluster(2)
    found = reader(cluster)
    found.assign(await found.find(EARLIEST, until=LATEST_TIMESTAMP))
    cluster.metadata_fails = [Disconnected("gone"), TimeoutError("late")]
    cluster.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert await read(found) == [(0, b"0"), (0, b"1")]


async def test_a_bootstrap_address_that_stays_away_ends_the_reading_when_no_leader_answers_either() -> None:
    cluster = Cluster(1)
    found = reader(cluster)
    found.assign(await found.find(EARLIEST))
    cluster.metadata_fails = [Disconnected("gone")] * PATIENCE_MS
    cluster.fails = [Disconnected("gone")] * PATIENCE_MS
    with pytest.raises(Disconnected, match="gone"):
        while True:
            await found.poll(0)
    assert PATIENCE_MS / 200 < cluster.metadata < PATIENCE_MS / 10


async def test_offsets_wait_for_a_bootstrap_address_that_is_away_for_a_moment() -> None:
    class Restarting(Cluster):
        def _list_offsets(self, message: Any) -> Any:
            if self.metadata == 1:  # with the node that leads, the bootstrap address is gone
                self.metadata_fails = [Disconnected("gone"), TimeoutError("late")]
                raise Disconnected("gone")
            return super()._list_offsets(message)

    (cursor,) = await reader(Restarting(3)).find(LATEST)
    assert cursor.offset == 3


async def test_a_partition_that_is_not_read_may_be_without_a_leader() -> None:
    cluster, clock = Cluster(3, 1), Clock()
    cluster.leaders[1] = -1
    found = TopicReader(cluster, clock, "t", patience_ms=PATIENCE_MS)
    found.assign(await found.find(EARLIEST, partitions=[0]))
    arrived: list[bytes | None] = []
    for _ in range(20):
        clock.advance(PATIENCE_MS / 10)
        arrived += [record.value for _, record in await found.poll(0)]
    assert arrived == [b"0", b"1", b"2"]
    assert cluster.metadata == 2


@pytest.mark.parametrize("error", [Disconnected("gone"), TimeoutError("late")])
async def test_a_node_that_stays_away_ends_the_reading_with_its_error_when_the_patience_is_over(
    error: Exception,
) -> None:
    cluster = Cluster(1)
    cluster.fails = [error] * PATIENCE_MS
    found = reader(cluster)
    found.assign(await found.find(EARLIEST))
    with pytest.raises(type(error), match=str(error)):
        while True:
            await found.poll(0)


async def test_a_partition_without_a_leader_ends_the_reading_when_the_patience_is_over() -> None:
    cluster = Cluster(1, 1)
    cluster.leaders[1] = -1
    with pytest.raises(ApiError, match="LEADER_NOT_AVAILABLE: t-1"):
        await reader(cluster).find(LATEST)


async def test_unknown_topics_and_partitions_are_refused_at_once() -> None:
    cluster = Cluster(1)
    with pytest.raises(ApiError, match="no partition 7"):
        await reader(cluster).find(LATEST, partitions=[7])
    cluster.unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION: t"):
        await reader(cluster).find(LATEST)


async def test_a_fetch_that_is_refused_for_good_is_an_error() -> None:
    cluster = Cluster(1)
    cluster.codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    found = reader(cluster)
    found.assign(await found.find(EARLIEST))
    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED: t-0"):
        await found.poll(0)


async def test_offsets_that_retention_took_away_are_told_and_the_reading_goes_on_behind_them() -> None:
    cluster, gaps = Cluster(5, first=3), list[Gap]()
    found = reader(cluster, gaps)
    found.assign([Cursor(0, 1, 5)])
    assert await read(found) == [(0, b"3"), (0, b"4")]
    assert gaps == [Gap(0, wanted=1, next_offset=3)]


async def test_a_log_that_was_truncated_below_the_position_is_a_gap_too() -> None:
    cluster, gaps = Cluster(5), list[Gap]()
    found = reader(cluster, gaps)
    found.assign([Cursor(0, 9)])
    for _ in range(3):
        assert list(await found.poll(0)) == []
    assert gaps == [Gap(0, wanted=9, next_offset=5)]


async def test_an_answer_for_a_cursor_that_was_assigned_anew_is_left_out() -> None:
    found = reader(Cluster(2))
    old, new = Cursor(0, 0), Cursor(0, 1)
    found.assign([old])
    assert [record.value for _, record in await found.poll(0)] == [b"0"]
    polled = await found.poll(0)
    found.assign([new])
    assert [record.value for _, record in polled] == [b"1"]
    assert [record.value for _, record in await found.poll(0)] == [b"1"]

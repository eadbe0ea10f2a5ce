"""Committed offsets with their lag: which leaders are asked, in what order, and what silence means."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.coordinator import TOPIC_ID, Stage, image
from tailrace.errors import ApiError
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.records.record import Record, build
from tailrace.wire.messages import FetchRequest, FetchResponse, ListOffsetsResponse, OffsetCommitRequest
from tailrace_coordinator.reports import committed_offsets
from tailrace_coordinator.reports.committed_offsets import KEPT_MS, CommittedOffsets, row_of

Topic = ListOffsetsResponse.ListOffsetsTopicResponse


class MemoryBrokers:
    """Logs that end where `ends` says; a record's timestamp is its offset. fail_next is raised by the next question."""

    def __init__(self, ends: dict[tuple[str, int], int]) -> None:
        self.ends = ends
        self.fetched: list[list[tuple[str, int, int]]] = []
        self.asked: list[tuple[Address, list[tuple[str, int]]]] = []
        self.kept: list[Address] = []
        self.fail_next: Exception | None = None
        self.before_answer: Any = None

    async def ask(self, address: Address, request: Any, version: int) -> Any:
        if isinstance(request, FetchRequest):
            return self._fetch(request)
        keys = [(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions]
        self.asked.append((address, keys))
        if error := self.fail_next:
            self.fail_next = None
            raise error
        if self.before_answer is not None:
            await self.before_answer()
        row = Topic.ListOffsetsPartitionResponse
        rows = [
            Topic(
                name=name,
                partitions=[
                    row(
                        partition_index=n,
                        error_code=0 if (name, n) in self.ends else 3,
                        offset=self.ends.get((name, n), -1),
                    )
                ],
            )
            for name, n in keys
        ]
        return ListOffsetsResponse(topics=rows)

    def _fetch(self, request: Any) -> FetchResponse:
        self.fetched.append([(t.topic, p.partition, p.fetch_offset) for t in request.topics for p in t.partitions])
        topic = FetchResponse.FetchableTopicResponse
        rows = [
            topic(
                topic=asked.topic,
                partitions=[
                    topic.PartitionData(
                        partition_index=part.partition,
                        records=bytes(build([Record(timestamp=part.fetch_offset)], base_offset=part.fetch_offset)),
                    )
                    for part in asked.partitions
                ],
            )
            for asked in request.topics
        ]
        return FetchResponse(error_code=0, responses=rows)

    async def keep(self, addresses: Any) -> None:
        self.kept = list(addresses)


def wide(partitions: int) -> MetadataImage:
    base = image()
    rows = tuple(PartitionImage((0,), (0,), 0, 0, 0) for _ in range(partitions))
    return replace(base, topics={**base.topics, "t": TopicImage("t", TOPIC_ID, rows)})


async def commit(stage: Stage, partition: int, offset: int, group_id: str = "g") -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    request = OffsetCommitRequest(group_id=group_id, topics=[topic(name="t", partitions=[row])])
    assert (await stage.ask(request, 9)).topics[0].partitions[0].error_code == 0


def gathering(stage: Stage, brokers: MemoryBrokers, images: list[MetadataImage] | None = None) -> CommittedOffsets:
    """images: of which the last one counts, in place of the coordinator's."""
    coordinator = stage.coordinator
    return CommittedOffsets(
        coordinator.groups.machines,
        lambda: images[-1] if images else coordinator.image,
        brokers,
        stage.clock,
        "boot",
    )


def shown(offsets: CommittedOffsets) -> list[tuple[str, int, int, int | None]]:
    rows = map(row_of, offsets.rows)
    return [(row["group_id"], row["partition"], row["committed_offset"], row["log_end_offset"]) for row in rows]


def times(offsets: CommittedOffsets) -> list[int | None]:
    return [row.next_timestamp_ms for row in offsets.rows]


async def test_each_offset_is_shown_beside_the_end_of_its_log_which_is_asked_for_once() -> None:
    stage = Stage()
    await stage.become(wide(2))
    await commit(stage, 0, 5)
    await commit(stage, 1, 7)
    await commit(stage, 1, 3, "other")
    brokers = MemoryBrokers({("t", 0): 9, ("t", 1): 7})
    offsets = gathering(stage, brokers)
    await offsets.refresh()
    assert shown(offsets) == [("g", 0, 5, 9), ("g", 1, 7, 7), ("other", 1, 3, 7)]
    assert brokers.asked == [(Address("127.0.0.1", 1), [("t", 0), ("t", 1)])]
    await stage.coordinator.close()


async def test_a_commit_while_the_end_is_asked_for_waits_for_the_next_round_so_that_nobody_is_ahead() -> None:
    stage = Stage()
    await stage.become(wide(1))
    await commit(stage, 0, 5)
    brokers = MemoryBrokers({("t", 0): 5})
    brokers.before_answer = lambda: commit(stage, 0, 6)
    offsets = gathering(stage, brokers)
    await offsets.refresh()
    assert shown(offsets) == [("g", 0, 5, 5)]
    await stage.coordinator.close()


@pytest.mark.parametrize("failure", [Disconnected("gone"), TimeoutError()])
async def test_the_end_is_unknown_where_the_leader_does_not_answer_or_there_is_none(failure: Exception) -> None:
    stage = Stage()
    await stage.become(wide(2))
    await commit(stage, 0, 5)
    await commit(stage, 1, 6)
    brokers = MemoryBrokers({("t", 0): 9})  # partition 1 is refused
    images = [stage.coordinator.image]
    offsets = gathering(stage, brokers, images)
    await offsets.refresh()
    assert shown(offsets) == [("g", 0, 5, 9), ("g", 1, 6, None)]
    brokers.fail_next = failure
    await offsets.refresh()
    assert shown(offsets) == [("g", 0, 5, None), ("g", 1, 6, None)]
    asked = len(brokers.asked)
    leaderless = tuple(replace(part, leader=-1) for part in wide(2).topics["t"].partitions)
    images.append(replace(wide(2), topics={"t": TopicImage("t", TOPIC_ID, leaderless)}))
    await offsets.refresh()
    assert (shown(offsets)[0], len(brokers.asked), brokers.kept) == (("g", 0, 5, None), asked, [])
    await stage.coordinator.close()


async def test_one_request_asks_for_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_offsets, "PARTITIONS_MAX", 2)
    monkeypatch.setattr(committed_offsets, "MAX_ROWS", 5)
    stage = Stage()
    await stage.become(wide(6))
    for partition in range(6):
        await commit(stage, partition, 1)
    brokers = MemoryBrokers({("t", n): 4 for n in range(6)})
    offsets = gathering(stage, brokers)
    await offsets.refresh()
    assert [len(keys) for _, keys in brokers.asked] == [2, 2, 1]
    assert [row[3] for row in shown(offsets)] == [4] * 5
    await stage.coordinator.close()


async def test_a_coordinator_without_an_image_has_nothing_to_report() -> None:
    stage, brokers = Stage(), MemoryBrokers({})
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        _ = stage.coordinator.image
    offsets = gathering(stage, brokers)
    await offsets.refresh()
    assert (offsets.rows, brokers.asked) == ([], [])
    assert await offsets.moved() == ()


async def test_the_next_record_of_each_lagging_group_is_looked_for_and_its_timestamp_kept_for_a_while() -> None:
    stage = Stage()
    await stage.become(wide(2))
    await commit(stage, 0, 5)
    await commit(stage, 0, 7, "other")
    await commit(stage, 1, 4)
    brokers = MemoryBrokers({("t", 0): 9, ("t", 1): 4})
    offsets = gathering(stage, brokers)
    await offsets.refresh()
    assert sorted(map(str, times(offsets))) == ["5", "7", "None"]
    assert brokers.fetched == [[("t", 0, 5)], [("t", 0, 7)]]
    stage.clock.advance(2_000)
    brokers.ends["t", 0] = 19
    await offsets.refresh()
    assert len(brokers.fetched) == 2
    assert {row.lag_trend for row in offsets.rows} == {5.0, 0.0}
    stage.clock.advance(KEPT_MS)
    await offsets.refresh()
    assert len(brokers.fetched) == 4
    await stage.coordinator.close()


async def test_only_what_has_moved_is_looked_at_and_an_idle_group_costs_no_question() -> None:
    stage = Stage()
    await stage.become(wide(2))
    await commit(stage, 0, 5)
    await commit(stage, 1, 6)
    brokers = MemoryBrokers({("t", 0): 9, ("t", 1): 9})
    offsets = gathering(stage, brokers)
    await offsets.refresh()
    asked = len(brokers.asked)
    assert (await offsets.moved(), len(brokers.asked)) == ((), asked)
    await commit(stage, 1, 8)
    assert [(row.offset.partition, row.lag, row.next_timestamp_ms) for row in await offsets.moved()] == [(1, 1, 8)]
    assert brokers.asked[asked:] == [(Address("127.0.0.1", 1), [("t", 1)])]
    assert brokers.kept == [Address("127.0.0.1", 1)]
    assert [row.lag for row in offsets.rows] == [4, 1]
    assert await offsets.moved() == ()
    await stage.coordinator.close()


async def test_of_very_many_that_moved_the_rest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_offsets, "MAX_CHANGES", 2)
    stage = Stage()
    await stage.become(wide(3))
    offsets = gathering(stage, MemoryBrokers({("t", n): 4 for n in range(3)}))
    for partition in range(3):
        await commit(stage, partition, 1)
    assert [len(await offsets.moved()) for _ in range(3)] == [2, 1, 0]
    await stage.coordinator.close()


async def test_an_offset_of_a_deleted_topic_does_not_count_for_a_new_one_of_that_name() -> None:
    stage = Stage()
    await stage.become(wide(1))
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=94)
    request = OffsetCommitRequest(group_id="g", topics=[topic(topic_id=TOPIC_ID, partitions=[row])])
    assert (await stage.ask(request, 10)).topics[0].partitions[0].error_code == 0
    anew = replace(wide(1), topics={"t": replace(wide(1).topics["t"], topic_id=UUID(int=99))})
    images = [stage.coordinator.image, anew]
    offsets = gathering(stage, MemoryBrokers({("t", 0): 6}), images)
    await offsets.refresh()
    assert offsets.rows == []
    images.pop()
    await offsets.refresh()
    assert shown(offsets) == [("g", 0, 94, 6)]
    await stage.coordinator.close()

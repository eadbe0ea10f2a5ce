"""Requests of very many rows: all of them are answered, and no answer grows beyond its bound."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from support.coordinator import TOPIC_ID, Stage, image
from support.groups import subscription
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.net.limits import answer_budget
from tailrace.wire import messages as m
from tailrace_coordinator.handlers.offset_commit import answered

MANY = 5_000
_COMMIT = m.OffsetCommitRequest.OffsetCommitRequestTopic
_COMMITTED = m.OffsetCommitResponse.OffsetCommitResponseTopic
_FETCH = m.OffsetFetchRequest.OffsetFetchRequestGroup


def wide() -> MetadataImage:
    base = image()
    rows = tuple(PartitionImage((0,), (0,), 0, 0, 0) for _ in range(MANY))
    return replace(base, topics={**base.topics, "t": TopicImage("t", TOPIC_ID, rows)})


@pytest.fixture
async def stage() -> Any:
    stage = Stage()
    await stage.become(wide())
    yield stage
    await stage.coordinator.close()


def commit(count: int, metadata: str = "") -> Any:
    rows = [
        _COMMIT.OffsetCommitRequestPartition(
            partition_index=n, committed_offset=n, committed_leader_epoch=-1, committed_metadata=metadata
        )
        for n in range(count)
    ]
    topics = [_COMMIT(name="t", topic_id=TOPIC_ID, partitions=rows)]
    return m.OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)


def fetch(group_id: str = "g") -> Any:
    topic = _FETCH.OffsetFetchRequestTopics(name="t", partition_indexes=list(range(MANY)))
    return m.OffsetFetchRequest(groups=[_FETCH(group_id=group_id, topics=[topic])], require_stable=False)


async def test_a_commit_of_many_offsets_is_all_there_and_deleted_with_its_group(stage: Stage) -> None:
    answer = await stage.ask(commit(MANY, "m"), 9)
    assert {row.error_code for row in answer.topics[0].partitions} == {0}
    assert len(answer.topics[0].partitions) == MANY
    (group,) = (await stage.ask(fetch(), 8)).groups
    rows = [(row.partition_index, row.committed_offset, row.metadata) for row in group.topics[0].partitions]
    assert rows == [(n, n, "m") for n in range(MANY)]
    answer = await stage.ask(m.DeleteGroupsRequest(groups_names=["nobody", "g"]), 2)
    assert [(row.group_id, row.error_code) for row in answer.results] == [("nobody", 69), ("g", 0)]
    (machine,) = stage.coordinator.groups.machines()
    assert machine is not None
    assert (len(machine.offsets), machine.groups) == (0, {})


async def test_the_topics_of_an_answer_are_made_by_a_thread(stage: Stage) -> None:
    makers = set[threading.Thread]()

    def topic(**fields: Any) -> Any:
        makers.add(threading.current_thread())
        return _COMMITTED(**fields)

    request = m.OffsetCommitRequest(topics=[_COMMIT(name=f"t{n}", partitions=[]) for n in range(MANY)])
    rows: list[list[ErrorCode | None]] = [[] for _ in request.topics]
    topics = await answered(request, stage.coordinator, rows, [], topic, _COMMITTED.OffsetCommitResponsePartition)
    assert [topic.name for topic in topics] == [f"t{n}" for n in range(MANY)]
    assert threading.main_thread() not in makers


async def test_offsets_that_an_answer_has_no_room_for_are_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_budget.AnswerBudget.__init__, "__defaults__", (100_000,))
    await stage.ask(commit(50, "\0" * 4_000), 9)
    (group,) = (await stage.ask(fetch(), 8)).groups
    assert (group.error_code, group.topics) == (ErrorCode.MESSAGE_TOO_LARGE, [])
    topics = [m.OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=list(range(50)))]
    assert await stage.ask(m.OffsetFetchRequest(group_id="g", topics=topics), 7) == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_list_of_all_groups_that_an_answer_has_no_room_for_is_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await stage.ask(m.OffsetCommitRequest(group_id=f"{number:02}" * 200, topics=commit(1).topics), 9)
    listing = m.ListGroupsRequest(states_filter=[], types_filter=[])
    assert len((await stage.ask(listing, 5)).groups) == 20
    monkeypatch.setattr(answer_budget.AnswerBudget.__init__, "__defaults__", (20 * 400,))
    assert await stage.ask(listing, 5) == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_group_that_an_answer_has_no_room_for_is_refused_and_smaller_ones_are_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_budget.AnswerBudget.__init__, "__defaults__", (100_000,))
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol
    for group_id, size in (("large", 90_000), ("larger", 95_000), ("small", 10)):
        row = protocol(name="range", metadata=subscription("t") + bytes(size))
        request = m.JoinGroupRequest(
            group_id=group_id, session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[row]
        )
        joined = await stage.answered(stage.ask(request, 0))
        sync = m.SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        await stage.ask(
            m.SyncGroupRequest(group_id=group_id, generation_id=1, member_id=joined.member_id, assignments=[sync]),
            0,
        )
    asked = m.DescribeGroupsRequest(groups=["large", "larger", "small"], include_authorized_operations=False)
    groups = (await stage.ask(asked, 6)).groups
    codes = [(group.error_code, len(group.members)) for group in groups]
    assert codes == [(0, 1), (ErrorCode.MESSAGE_TOO_LARGE, 0), (0, 1)]
    assert groups[1].error_message == answer_budget.TOO_LARGE

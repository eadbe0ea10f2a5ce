"""What the SQL views are told of groups: when, in what parts, and that a report which fails is nobody's loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.coordinator import LOGGER, TOPIC_ID, Stage, image
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.net.client import Disconnected
from tailrace.net.members import reports as module
from tailrace.net.members.reports import MAX_REPORT_BYTES, PART_BYTES, Reports, Source, parts
from tailrace.wire.messages import OffsetCommitRequest, ReportGroupsRequest, ReportGroupsResponse
from tailrace_coordinator.reports.committed_offsets import METADATA_CHARACTERS, CommittedOffsets, row_of
from tailrace_coordinator.reports.reports import sources_of


class Controller:
    """Keeps what it is told; answers from a list."""

    def __init__(self, *answers: Any) -> None:
        self.told: list[ReportGroupsRequest] = []
        self.answers = list(answers)

    async def __call__(self, request: ReportGroupsRequest) -> Any:
        self.told.append(request)
        answer = self.answers.pop(0) if self.answers else ReportGroupsResponse(error_code=0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def rows(self, kind: str) -> list[Any]:
        return [row for part in self.told if part.kind == kind for row in json.loads(bytes(part.payload))]


async def commit(stage: Stage, offset: int, metadata: str = "") -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[topic(name="t", topic_id=TOPIC_ID, partitions=[partition])],
    )
    assert (await stage.ask(request, 9)).topics[0].partitions[0].error_code == ErrorCode.NONE


def reporting(stage: Stage, controller: Controller, offsets: list[dict[str, Any]], epoch: int = 7) -> Reports:
    sources = [
        *sources_of(stage.coordinator.groups),
        Source("group_offsets", lambda: offsets, dict, ("topic", "partition")),
    ]
    return Reports(stage.clock, sources, controller, lambda: (0, epoch), LOGGER)


async def test_groups_and_offsets_are_reported_when_they_changed_and_once_a_minute() -> None:
    stage, controller = Stage(), Controller()
    await stage.become(image())
    await commit(stage, 8)
    offsets = [{"topic": "t", "partition": 0, "committed_offset": 8, "log_end_offset": 9}]
    reports = reporting(stage, controller, offsets)
    assert await reports.report() == 2
    assert controller.rows("groups") == [{"group_id": "g", "state": "Empty", "type": "classic", "members": 0}]
    assert controller.rows("group_offsets") == offsets
    assert [(part.first, part.last, part.service_epoch) for part in controller.told] == [(True, True, 7)] * 2
    await reports.report()
    assert len(controller.told) == 2
    offsets[0]["committed_offset"] = 9
    await reports.report()
    assert [(part.kind, part.first, part.last) for part in controller.told[2:]] == [("group_offsets", True, False)]
    offsets.append({"topic": "t", "partition": 1, "committed_offset": 3})
    await reports.report()
    assert json.loads(bytes(controller.told[3].payload)) == offsets[1:]  # what did not change is not written again
    del offsets[0]
    await reports.report()
    assert [(part.kind, part.first, part.last) for part in controller.told[4:]] == [("group_offsets", True, True)]
    stage.clock.advance(60_000)
    await reports.report()
    assert [(part.kind, part.last) for part in controller.told[5:]] == [("groups", True), ("group_offsets", True)]
    await stage.coordinator.close()


async def test_a_report_that_fails_is_given_up_and_the_next_one_begins_anew() -> None:
    stage, refused = Stage(), ReportGroupsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    await stage.become(image())
    for failure in (Disconnected("away"), TimeoutError(), refused):
        controller = Controller(failure)
        reports = reporting(stage, controller, [])
        assert await reports.report() >= module.FEW_ROWS  # has time until the next one
        assert [part.kind for part in controller.told] == ["groups"]
        await reports.report()
        assert [part.kind for part in controller.told] == ["groups", "groups", "group_offsets"]
    controller = Controller()
    await reporting(stage, controller, [], epoch=-1).report()
    assert controller.told == []  # not registered yet
    await stage.coordinator.close()


async def test_what_moved_is_reported_by_itself_and_very_much_of_it_in_several_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_CHANGES", 2)
    rows = [{"partition": number, "committed_offset": 1} for number in range(3)]
    moves = [rows[:1], [], rows]

    async def moved() -> list[dict[str, Any]]:
        return moves.pop(0)

    controller = Controller()
    source = Source("group_offsets", lambda: rows, dict, ("partition",), moved=moved)
    reports = Reports(ManualClock(), [source], controller, lambda: (0, 7), LOGGER)
    await reports.report_moved()
    assert controller.rows("group_offsets") == rows[:1]
    await reports.report_moved()
    assert len(controller.told) == 1
    await reports.report_moved()
    assert controller.rows("group_offsets") == rows
    assert {(part.first, part.last) for part in controller.told} == {(True, False)}


async def test_after_a_report_of_what_moved_has_failed_all_is_reported() -> None:
    rows = [{"partition": 0}]

    async def moved() -> list[dict[str, int]]:
        return rows

    controller = Controller(ReportGroupsResponse(error_code=0), Disconnected("away"))
    source = Source("group_offsets", lambda: rows, dict, ("partition",), moved=moved)
    reports = Reports(ManualClock(), [source], controller, lambda: (0, 7), LOGGER)
    await reports.report()
    rows[0]["log_end_offset"] = 5
    await reports.report_moved()
    await reports.report()
    assert [(part.first, part.last) for part in controller.told] == [(True, True), (True, False), (True, True)]


async def test_no_part_is_large_and_no_report_is_without_end() -> None:
    rows = [{"group_id": "g", "metadata": "\0" * 256, "partition": number} for number in range(19_000)]
    controller = Controller()
    source = Source("group_offsets", lambda: rows, dict, ("partition",))
    await Reports(ManualClock(), [source], controller, lambda: (0, 7), LOGGER).report()
    found = [len(part.payload) for part in controller.told]
    assert max(found) <= PART_BYTES + 2_000
    assert MAX_REPORT_BYTES * 0.95 < sum(found) <= MAX_REPORT_BYTES * 1.01
    told = [row["partition"] for row in controller.rows("group_offsets")]
    assert told == list(range(len(told)))
    assert parts([]) == [b"[]"]


async def test_of_metadata_that_a_client_wrote_the_beginning_is_told() -> None:
    stage = Stage()
    await stage.become(image())
    await commit(stage, 1, "\0" * 4_096)

    class Nobody:
        async def ask(self, address: Any, request: Any, version: int) -> Any:
            raise Disconnected("away")

        async def keep(self, addresses: Any) -> None:
            return

    machines, boot_id = stage.coordinator.groups.machines, "boot"
    offsets = CommittedOffsets(machines, lambda: stage.image, Nobody(), stage.clock, boot_id)
    await offsets.refresh()
    assert [len(row_of(row)["metadata"]) for row in offsets.rows] == [METADATA_CHARACTERS]
    await stage.coordinator.close()

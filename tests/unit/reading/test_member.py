"""A member of a classic group and a coordinator of messages: joins, rebalances, commits, leaves, and its patience."""

from __future__ import annotations

from typing import Any

import pytest

from support.reading import PATIENCE_MS, Clock, Cluster, reader
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.reading.member import GroupMember
from tailrace.reading.start import EARLIEST
from tailrace.wire import messages as m


class Group(Cluster):
    """The topic's cluster, and the coordinator of one member's group at the node that `port` names."""

    def __init__(self, *ends: int) -> None:
        super().__init__(*ends)
        self.port = 1
        self.generation_id = 0
        self.committed: dict[int, int] = {}
        self.codes_of: dict[type[Any], list[int]] = {}  # of the next answers to such a request
        self.others: list[Any] = []  # members beside this one
        self.asked: list[str] = []
        self.away: list[Exception] = []

    async def __call__(self, message: Any, version: int, at: Address | None = None) -> Any:
        if isinstance(message, m.FindCoordinatorRequest):
            row = m.FindCoordinatorResponse.Coordinator(host="h", port=self.port, error_code=0)
            return m.FindCoordinatorResponse(coordinators=[row])
        answer = getattr(self, type(message).__name__.removesuffix("Request"), None)
        if answer is None:
            return await super().__call__(message, version, at)
        assert at is not None
        self.asked.append(type(message).__name__.removesuffix("Request"))
        if self.away:
            raise self.away.pop(0)
        codes = self.codes_of.get(type(message), [])
        code = codes.pop(0) if codes else 0 if at.port == self.port else int(ErrorCode.NOT_COORDINATOR)
        return answer(message, code)

    def JoinGroup(self, message: Any, code: int) -> Any:
        row = m.JoinGroupResponse.JoinGroupResponseMember
        if not code and not message.member_id:
            return m.JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m1", members=[])
        self.generation_id += 1
        me = row(member_id=message.member_id, group_instance_id=None, metadata=message.protocols[0].metadata)
        return m.JoinGroupResponse(
            error_code=code,
            generation_id=self.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            leader=message.member_id,
            member_id=message.member_id,
            members=[me, *self.others],
        )

    def SyncGroup(self, message: Any, code: int) -> Any:
        mine = next((row.assignment for row in message.assignments if row.member_id == message.member_id), b"")
        return m.SyncGroupResponse(error_code=code, assignment=mine)

    def Heartbeat(self, message: Any, code: int) -> Any:
        return m.HeartbeatResponse(error_code=code)

    def LeaveGroup(self, message: Any, code: int) -> Any:
        return m.LeaveGroupResponse(error_code=code, members=[])

    def OffsetFetch(self, message: Any, code: int) -> Any:
        topic = m.OffsetFetchResponse.OffsetFetchResponseTopic
        rows = [
            topic.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=self.committed.get(index, -1), error_code=0
            )
            for index in message.topics[0].partition_indexes
        ]
        return m.OffsetFetchResponse(error_code=code, topics=[topic(name="t", partitions=rows)])

    def OffsetCommit(self, message: Any, code: int) -> Any:
        topic = m.OffsetCommitResponse.OffsetCommitResponseTopic
        rows = message.topics[0].partitions
        if not code:
            self.committed |= {row.partition_index: row.committed_offset for row in rows}
        done = [
            topic.OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code) for row in rows
        ]
        return m.OffsetCommitResponse(topics=[topic(name="t", partitions=done)])


class World:
    """A group and its member, whose time passes as the test says."""

    def __init__(self, *ends: int) -> None:
        self.group = Group(*ends)
        self.clock = Clock()
        self.member = GroupMember(
            self.group, self.clock, reader(self.group), "g", "t", EARLIEST, patience_ms=PATIENCE_MS
        )

    async def read(self, count: int) -> list[tuple[int, bytes | None]]:
        """So many records."""
        records: list[tuple[int, bytes | None]] = []
        while len(records) < count:
            records += [(partition, record.value) for partition, record in await self.member.poll(0)]
        return records


async def test_a_member_reads_all_partitions_commits_and_leaves() -> None:
    world = World(2, 1)
    assert sorted(await world.read(3)) == [(0, b"0"), (0, b"1"), (1, b"0")]
    await world.member.close()
    assert world.group.committed == {0: 2, 1: 1}
    assert world.group.asked == ["JoinGroup", "JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit", "LeaveGroup"]


async def test_a_member_begins_where_the_group_is() -> None:
    world = World(3, 1)
    world.group.committed = {0: 2}
    assert sorted(await world.read(2)) == [(0, b"2"), (1, b"0")]


async def test_the_leading_member_gives_others_their_share() -> None:
    world = World(1, 1)
    row = m.JoinGroupResponse.JoinGroupResponseMember
    world.group.others = [
        row(member_id="m0", group_instance_id=None, metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),
        row(member_id="m9", group_instance_id=None, metadata=b"of another format"),
    ]
    assert await world.read(1) == [(1, b"0")], "m0 has the first partition"


async def test_what_was_read_is_committed_before_partitions_are_given_anew() -> None:
    world = World(1)
    await world.read(1)
    world.group.codes_of[m.HeartbeatRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
    world.clock.advance(3_000)
    world.group.asked.clear()
    await world.member.poll(0)
    assert world.group.asked == ["Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup", "OffsetFetch"]
    assert world.group.committed == {0: 1}
    world.group.ends = [2]
    assert await world.read(1) == [(0, b"1")]


@pytest.mark.parametrize("request_type", [m.HeartbeatRequest, m.OffsetCommitRequest])
async def test_a_member_that_the_group_has_removed_joins_as_a_new_one(request_type: type[Any]) -> None:
    world = World(1)
    await world.read(1)
    world.group.codes_of[request_type] = [ErrorCode.UNKNOWN_MEMBER_ID]
    world.clock.advance(5_000)
    world.group.asked.clear()
    await world.member.poll(0)
    assert world.group.asked[-4:] == ["JoinGroup", "JoinGroup", "SyncGroup", "OffsetFetch"]


async def test_positions_are_committed_every_five_seconds_where_they_moved() -> None:
    world = World(1)
    await world.read(1)
    for _ in range(3):
        world.clock.advance(5_000)
        await world.member.poll(0)
    assert world.group.asked.count("OffsetCommit") == 1
    assert world.group.asked.count("Heartbeat") == 3


@pytest.mark.parametrize("failure", [Disconnected("h:1"), TimeoutError()])
async def test_a_coordinator_that_moves_is_followed(failure: Exception) -> None:
    world = World(1)
    world.group.away = [failure]
    await world.read(1)
    world.group.port = 0
    world.clock.advance(3_000)
    world.group.asked.clear()
    await world.member.poll(0)
    assert world.group.asked == ["Heartbeat", "Heartbeat"]


async def test_a_group_that_loads_is_waited_for_until_the_patience_is_over() -> None:
    world = World(1)
    world.group.codes_of[m.OffsetFetchRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    await world.read(1)
    world.group.codes_of[m.HeartbeatRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
    world.clock.advance(3_000)
    with pytest.raises(ApiError) as raised:
        await world.member.poll(0)
    assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_member_leaves_a_group_that_rebalances() -> None:
    world = World(1)
    await world.read(1)
    world.group.codes_of[m.HeartbeatRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
    world.group.codes_of[m.JoinGroupRequest] = [ErrorCode.GROUP_MAX_SIZE_REACHED]
    world.clock.advance(3_000)
    with pytest.raises(ApiError):
        await world.member.poll(0)
    await world.member.close()
    await world.member.close()
    assert world.group.asked[-2:] == ["JoinGroup", "LeaveGroup"]


async def test_a_refusal_ends_it() -> None:
    world = World(1)
    world.group.codes_of[m.JoinGroupRequest] = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError) as raised:
        await world.member.poll(0)
    assert raised.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await world.member.close()
    assert world.group.asked == ["JoinGroup"]

"""One conversation about groups and offsets, every API at both ends of its versions and most of its refusals.

Asked of Apache Kafka once, its answers are the golden file beside the coordinator's tests; run this module with a port
of a fresh Kafka (one partition to a topic, group.initial.rebalance.delay.ms=0) to capture them again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from tailrace.wire import messages as m

Ask = Callable[[Any, int], Awaitable[Any]]

SUBSCRIPTION = b"\0\0\0\0\0\1\0\2t1\xff\xff\xff\xff"
ASSIGNMENT = b"\0\0\0\0\0\1\0\2t1\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
NOBODYS_ID = UUID(int=77)

_Commit = m.OffsetCommitRequest.OffsetCommitRequestTopic
_FetchGroup = m.OffsetFetchRequest.OffsetFetchRequestGroup
_FetchTopic = m.OffsetFetchRequest.OffsetFetchRequestTopic
_Protocol = m.JoinGroupRequest.JoinGroupRequestProtocol
_Assignment = m.SyncGroupRequest.SyncGroupRequestAssignment
_DeleteTopic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic
_Leaver = m.LeaveGroupRequest.MemberIdentity


def commit(
    group_id: str,
    generation: int = -1,
    member: str = "",
    *,
    instance: str | None = None,
    topic: str = "t1",
    topic_id: UUID | None = None,
    partition: int = 0,
    metadata: str | None = "m",
    retention_ms: int = -1,
) -> Any:
    row = _Commit.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=5, committed_leader_epoch=0, committed_metadata=metadata
    )
    return m.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[_Commit(name=topic, topic_id=topic_id, partitions=[row])],  # type: ignore[arg-type]
    )


def fetch(group_id: str, *topics: tuple[str | UUID, list[int]], member: str | None = None) -> Any:
    """A group of OffsetFetch v8+; no topics: all of them."""
    row = _FetchGroup.OffsetFetchRequestTopics
    rows = [
        row(topic_id=topic, partition_indexes=indexes)
        if isinstance(topic, UUID)
        else row(name=topic, partition_indexes=indexes)
        for topic, indexes in topics
    ]
    epoch = -1 if member is None else 3
    return _FetchGroup(group_id=group_id, member_id=member, member_epoch=epoch, topics=rows or None)


def join(
    group_id: str,
    member: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 10_000,
    protocol_type: str = "consumer",
    protocols: tuple[tuple[str, bytes], ...] = (("range", SUBSCRIPTION),),
) -> Any:
    return m.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[_Protocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


def sync(group_id: str, generation: int, member: str, *assigned: bytes, **more: str) -> Any:
    rows = [_Assignment(member_id=member, assignment=assignment) for assignment in assigned]
    return m.SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member,
        group_instance_id=more.get("instance"),
        protocol_type=more.get("type"),
        protocol_name=more.get("name"),
        assignments=rows,
    )


def heartbeat(group_id: str, generation: int, member: str, instance: str | None = None) -> Any:
    return m.HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member, group_instance_id=instance)


def delete_offset(group_id: str, topic: str = "t1", partition: int = 0) -> Any:
    row = _DeleteTopic.OffsetDeleteRequestPartition(partition_index=partition)
    return m.OffsetDeleteRequest(group_id=group_id, topics=[_DeleteTopic(name=topic, partitions=[row])])


def leave(group_id: str, *members: tuple[str, str | None]) -> Any:
    return m.LeaveGroupRequest(
        group_id=group_id, members=[_Leaver(member_id=member, group_instance_id=i) for member, i in members]
    )


async def offsets(ask: Ask, topic_id: UUID) -> None:
    for version in (2, 3, 5, 6, 7, 8, 9):
        await ask(commit("s1"), version)
    await ask(commit("s10", topic_id=topic_id), 10)
    await ask(commit("s10", topic_id=NOBODYS_ID), 10)
    await ask(commit("s4", retention_ms=5_000_000), 4)
    for refused in (
        commit("s1", metadata="x" * 5000),
        commit("s1", metadata=None),
        commit("s1", topic="nope"),
        commit("s1", partition=9),
        commit("unknown", 3, "x"),
        commit("", -1),
        commit("s1", 3, "x"),
        commit("s1", -1, "x"),
    ):
        await ask(refused, 9)
    await ask(commit("unknown", 3, "x"), 8)
    topics = [_FetchTopic(name="t1", partition_indexes=[0, 3]), _FetchTopic(name="nope", partition_indexes=[0])]
    for version in (1, 2, 5, 7):
        await ask(m.OffsetFetchRequest(group_id="s1", topics=topics), version)
    for version in (2, 5, 7):
        await ask(m.OffsetFetchRequest(group_id="s1", topics=None), version)
    await ask(m.OffsetFetchRequest(group_id="nobody", topics=None), 7)
    groups = [fetch("s1"), fetch("s10", ("t1", [0, 1]), ("nope", [0])), fetch("nobody", ("t1", [0])), fetch("nowhere")]
    await ask(m.OffsetFetchRequest(groups=groups), 8)
    groups = [fetch("s1", member="z"), fetch("nobody", ("t1", [0]), member="z")]
    await ask(m.OffsetFetchRequest(groups=groups), 9)
    groups = [fetch("s10", (topic_id, [0, 1]), (NOBODYS_ID, [0])), fetch("s1")]
    await ask(m.OffsetFetchRequest(groups=groups), 10)


async def joins(ask: Ask) -> str:
    """Leaves a stable group j3 of generation 2; returns its member."""
    for version in (0, 3, 6, 7, 9):
        for refused in (
            join(""),
            join("j1", session_ms=10),
            join("j1", "nobody"),
            join("j1", protocol_type=""),
            join("j1", protocols=()),
        ):
            await ask(refused, version)
    for version in (4, 5, 6, 7, 8, 9):
        await ask(join("j2"), version)
    member: str = (await ask(join("j3"), 2)).member_id
    for version in (0, 1, 3, 4):
        await ask(sync("nobody", 1, "x"), version)
        await ask(sync("j3", 9, member), version)
        await ask(sync("j3", 1, "x"), version)
    await ask(sync("", 1, "x"), 4)
    await ask(sync("j3", 1, member), 5)
    await ask(sync("j3", 1, member, type="consumer", name="other"), 5)
    await ask(sync("j3", 1, member, type="connect", name="range"), 5)
    await ask(heartbeat("j3", 1, member), 4)
    await ask(commit("j3", 1, member), 9)
    await ask(m.DescribeGroupsRequest(groups=["j3"]), 5)
    await ask(sync("j3", 1, member, ASSIGNMENT, type="consumer", name="range"), 5)
    await ask(sync("j3", 1, member), 0)
    await ask(join("j3", member), 5)
    await ask(sync("j3", 2, member, ASSIGNMENT), 3)
    return member


async def members(ask: Ask, member: str) -> None:
    for version in (0, 3, 4):
        await ask(heartbeat("j3", 2, member), version)
        await ask(heartbeat("j3", 1, member), version)
        await ask(heartbeat("j3", 2, "x"), version)
        await ask(heartbeat("nobody", 2, "x"), version)
        await ask(heartbeat("", 2, "x"), version)
    await ask(heartbeat("j3", 2, member, "i"), 4)
    for generation, who in ((-1, ""), (2, member), (1, member), (2, "x")):
        await ask(commit("j3", generation, who), 9)
    for version in (0, 1, 3, 4, 5, 6):
        groups = ["j3", "nobody", "s1", ""]
        await ask(m.DescribeGroupsRequest(groups=groups, include_authorized_operations=True), version)
    for refused in (
        delete_offset("j3"),
        delete_offset("j3", "nope"),
        delete_offset("j3", partition=7),
        delete_offset("nobody"),
        delete_offset("nobody", "nope"),
        delete_offset(""),
        delete_offset("s1"),
        m.OffsetDeleteRequest(group_id="nobody"),
        m.OffsetDeleteRequest(group_id="s1"),
    ):
        await ask(refused, 0)
    for version in range(4):
        await ask(m.DeleteGroupsRequest(groups_names=["j3", "nobody", ""]), version)


async def leaves(ask: Ask, member: str) -> None:
    for version in (0, 1, 2):
        for group_id in ("nobody", "", "j3"):
            await ask(m.LeaveGroupRequest(group_id=group_id, member_id="x"), version)
    for version in (3, 4, 5):
        await ask(leave("nobody", ("x", None)), version)
        await ask(leave("", ("x", None)), version)
        await ask(leave("j3", ("x", None), ("", "i"), ("", None)), version)
        await ask(leave("j3"), version)
    await ask(m.LeaveGroupRequest(group_id="j3", member_id=member), 1)
    await ask(m.DescribeGroupsRequest(groups=["j3"]), 5)
    for version in range(6):
        await ask(m.ListGroupsRequest(states_filter=["empty"]), version)
    for types, states in ((["Classic"], []), (["bogus"], []), ([], ["bogus"])):
        await ask(m.ListGroupsRequest(types_filter=types, states_filter=states), 5)


async def static_members(ask: Ask) -> None:
    old = (await ask(join("st", instance="i"), 5)).member_id
    await ask(sync("st", 1, old, b"xx", instance="i"), 3)
    await ask(join("st", instance="i"), 9)
    await ask(sync("st", 1, old, instance="i"), 3)
    await ask(heartbeat("st", 1, old, "i"), 4)
    await ask(join("st", old, instance="i"), 9)
    await ask(commit("st", 1, old, instance="i"), 9)
    await ask(join("st", instance="i"), 8)
    await ask(leave("st", ("", "i")), 5)
    await ask(m.DeleteGroupsRequest(groups_names=["st"]), 2)


async def conversation(ask: Ask, topic_id: UUID) -> list[str]:
    """Asks everything; returns one line per answer, free of what differs from run to run."""
    lines: list[str] = []
    names: dict[str, str] = {}

    async def written(message: Any, version: int) -> Any:
        answer = await ask(message, version)
        for name in ("groups", "results"):
            if isinstance(rows := getattr(answer, name, None), list):
                # Kafka's own order is that of a hash map. A group that was only refused stays with Kafka, empty.
                rows = [row for row in rows if row.group_id != "j1"]
                setattr(answer, name, sorted(rows, key=lambda row: row.group_id))
        text = re.sub(
            r"(script|i)-[0-9a-f-]{36}", lambda found: names.setdefault(found[0], f"M{len(names)}"), str(answer)
        )
        text = text.replace(repr(topic_id), "T1").replace(str(topic_id), "T1")
        text = re.sub(r"<ErrorCode\.\w+: (-?\d+)>", r"\1", text)
        lines.append(f"{type(message).__name__} v{version} {text}")
        return answer

    await offsets(written, topic_id)
    member = await joins(written)
    await members(written, member)
    await leaves(written, member)
    await static_members(written)
    return lines


async def capture(port: int) -> list[str]:
    """Asks the Kafka at that port; returns its answers."""
    from tailrace.net.address import Address
    from tailrace.net.client import Client

    client = Client(Address("127.0.0.1", port), "script")

    async def ask(message: Any, version: int) -> Any:
        return await client.ask(message, version=version, timeout_ms=20_000)

    wanted = m.MetadataRequest.MetadataRequestTopic(name="t1")
    metadata = await ask(m.MetadataRequest(topics=[wanted], allow_auto_topic_creation=True), 12)
    while metadata.topics[0].error_code:
        metadata = await ask(m.MetadataRequest(topics=[wanted], allow_auto_topic_creation=True), 12)
    await_group = m.FindCoordinatorRequest(key_type=0, coordinator_keys=["s1"])
    while (await ask(await_group, 4)).coordinators[0].error_code:
        pass
    while (await ask(heartbeat("warm", 1, "x"), 4)).error_code != 25:  # UNKNOWN_MEMBER_ID: all loaded
        pass
    lines = await conversation(ask, metadata.topics[0].topic_id)
    await client.close()
    return lines


if __name__ == "__main__":
    Path(sys.argv[2]).write_text("\n".join(asyncio.run(capture(int(sys.argv[1])))) + "\n")

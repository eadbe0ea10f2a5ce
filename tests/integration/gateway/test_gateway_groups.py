"""Group requests go to whoever owns the group's shard, are split where owners differ, and survive an owner's death."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import Peer, World
from support.waiting import HUNG_S, turns_until
from tailrace.errors import ErrorCode
from tailrace.metadata.image import ShardImage
from tailrace.state.partitioner import partition_for
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway.gateway import GatewayLimits

OFFSETS = "__consumer_offsets"


def group_on(shard: int, shards: int = 4) -> str:
    """A group id of that shard."""
    return next(name for name in map(str, range(1000)) if partition_for(name, shards) == shard)


@pytest.fixture
async def two_owners(open_world: Callable[..., World]) -> tuple[World, Peer, Peer]:
    """Four shards: 0 and 1 led by node 0, 2 and 3 by node 1; even ones owned by coordinator 0, odd ones by 1."""
    world = open_world(limits=GatewayLimits(coordinator_wait_ms=100))
    for node in (0, 1):
        world.put_broker(node, await world.peer(f"broker-{node}"))
    world.put_topic(OFFSETS, [0, 0, 1, 1])
    even, odd = await world.peer("coordinator-0"), await world.peer("coordinator-1")
    world.put_coordinators({0: 0, 1: 1, 2: 0, 3: 1}, {0: even, 1: odd})
    return world, even, odd


def describing(owner: str) -> Callable[..., Any]:
    """Answers DescribeGroups with the owner's name in each group's protocol_type."""

    async def script(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
        one = m.DescribeGroupsResponse.DescribedGroup
        groups = [
            one(group_id=g, group_state="Empty", protocol_type=owner, protocol_data="", members=[])
            for g in request.groups
        ]
        response = m.DescribeGroupsResponse(groups=groups)
        writer.write(codec.encode_response(response, header.api_version, header.correlation_id))

    return script


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_a_group_request_goes_to_the_owner_of_its_shard_as_it_was(
    two_owners: tuple[World, Peer, Peer], version: int
) -> None:
    world, even, odd = two_owners
    client = await world.client()
    request = m.HeartbeatRequest(group_id=group_on(1), generation_id=1, member_id="m")
    data = codec.encode_request(request, version, 7, "test")
    client.send(data)
    assert await client.answer() == (7, data[4:])
    assert (len(even.frames), len(odd.frames)) == (0, 1)


async def test_groups_of_one_owner_are_relayed_as_they_were(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, _ = two_owners
    client = await world.client()
    data = codec.encode_request(m.DescribeGroupsRequest(groups=[group_on(0), group_on(2)]), 5, 7, "test")
    client.send(data)
    assert await client.answer() == (7, data[4:])
    assert even.frames == [data[4:]]


@pytest.mark.parametrize("version", [0, 5])
async def test_groups_of_two_owners_are_split_and_joined_in_order(
    two_owners: tuple[World, Peer, Peer], version: int
) -> None:
    world, even, odd = two_owners
    even.script, odd.script = describing("even"), describing("odd")
    client = await world.client()
    groups = [group_on(3), group_on(0), group_on(1)]
    answer = await client.ask(m.DescribeGroupsRequest(groups=groups), version)
    assert [(g.group_id, g.protocol_type) for g in answer.groups] == list(
        zip(groups, ["odd", "even", "odd"], strict=True)
    )


async def test_a_request_without_groups_is_answered_without_groups(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, odd = two_owners
    client = await world.client()
    assert (await client.ask(m.DescribeGroupsRequest(groups=[]), 5)).groups == []
    assert (await client.ask(m.DeleteGroupsRequest(groups_names=[]), 2)).results == []
    assert (await client.ask(m.OffsetFetchRequest(groups=[]), 8)).groups == []
    assert not even.frames and not odd.frames


async def test_one_owner_away_refuses_only_its_groups(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, odd = two_owners
    even.script = describing("even")
    await odd.stop()
    client = await world.client()
    answer = await client.ask(m.DescribeGroupsRequest(groups=[group_on(3), group_on(0)]), 5)
    assert [g.error_code for g in answer.groups] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]


async def test_offsets_of_groups_of_two_owners_are_fetched_in_one_request(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, odd = two_owners

    async def script(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
        group = m.OffsetFetchResponse.OffsetFetchResponseGroup
        response = m.OffsetFetchResponse(groups=[group(group_id=g.group_id, topics=[]) for g in request.groups])
        writer.write(codec.encode_response(response, header.api_version, header.correlation_id))

    even.script = odd.script = script
    client = await world.client()
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [group_on(0), group_on(1), group_on(2)]
    request = m.OffsetFetchRequest(groups=[group(group_id=g, topics=None) for g in groups])
    answer = await client.ask(request, 8)
    assert [g.group_id for g in answer.groups] == groups


async def test_each_node_lists_the_groups_of_the_partitions_it_leads(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, odd = two_owners

    def listing(shards: list[int]) -> Callable[..., Any]:
        async def script(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
            one = m.ListGroupsResponse.ListedGroup
            response = m.ListGroupsResponse(groups=[one(group_id=group_on(s), protocol_type="") for s in shards])
            writer.write(codec.encode_response(response, header.api_version, header.correlation_id))

        return script

    even.script, odd.script = listing([0, 2]), listing([1, 3])
    for node, expected in ((0, {group_on(0), group_on(1)}), (1, {group_on(2), group_on(3)})):
        client = await world.client(node)
        answer = await client.ask(m.ListGroupsRequest(), 4)
        assert {g.group_id for g in answer.groups} == expected


async def test_an_owner_that_dies_unanswered_gives_not_coordinator(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, _ = two_owners
    even.script = even.silent
    client = await world.client()
    request = m.HeartbeatRequest(group_id=group_on(0), generation_id=1, member_id="m")
    client.send(codec.encode_request(request, 3, 7, "test"))
    await even.received.get()
    even.hang_up()
    _, rest = await client.answer()
    assert codec.decode_response(12, 3, rest).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_shard_that_moves_ends_the_wait_at_its_old_owner(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, _ = two_owners
    even.script = even.silent
    client = await world.client()
    request = m.HeartbeatRequest(group_id=group_on(0), generation_id=1, member_id="m")
    client.send(codec.encode_request(request, 3, 7, "test"))
    await even.received.get()
    world.put(shards={**world.follower.image.shards, (OFFSETS, 0): ShardImage(OFFSETS, 0, 1, 2)})
    _, rest = await client.answer()
    assert codec.decode_response(12, 3, rest).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_shard_without_owner_is_refused_after_a_moment(two_owners: tuple[World, Peer, Peer]) -> None:
    world, _, _ = two_owners
    world.put(shards={})
    client = await world.client()
    answer = await client.ask(m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(two_owners: tuple[World, Peer, Peer]) -> None:
    world, even, _ = two_owners
    even.script = even.silent
    client = await world.client()
    request = m.JoinGroupRequest(group_id=group_on(0), session_timeout_ms=1, member_id="m", protocol_type="consumer")
    request.protocols = []
    client.send(codec.encode_request(request, 3, 7, "test"))
    await even.received.get()
    client.writer.transport.abort()
    await turns_until(lambda: not world.gateway.connections)
    reader_ended = even.writers[0].wait_closed()
    await asyncio.wait_for(reader_ended, HUNG_S)


async def test_a_client_that_has_ended_its_side_still_gets_its_coordinators_answer(
    two_owners: tuple[World, Peer, Peer],
) -> None:
    world, _, _ = two_owners
    client = await world.client()
    request = m.HeartbeatRequest(group_id=group_on(0), generation_id=1, member_id="m")
    client.send(codec.encode_request(request, 3, 7, "test"))
    client.writer.write_eof()
    assert (await client.answer())[0] == 7
    assert await client.closed()

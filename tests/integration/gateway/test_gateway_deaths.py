"""A node that dies: what it owed ends its clients' connections, what comes later waits, and nothing is sent twice."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from support.authorizers import Recorder
from support.gateway import Client, Peer, World
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.metadata.image import PartitionImage, TopicImage
from tailrace.net.address import Address
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway import suspects
from tailrace_gateway.gateway import GatewayLimits


def produce(acks: int = 1, timeout_ms: int = 30_000) -> m.ProduceRequest:
    topic = m.ProduceRequest.TopicProduceData
    partitions = [topic.PartitionProduceData(index=i, records=b"records") for i in (0, 1)]
    return m.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic(name="t", partition_data=partitions)])


def frame(message: Any, version: int, correlation_id: int = 1) -> bytes:
    return codec.encode_request(message, version, correlation_id, "test")


def _address(peer: Peer) -> Address:
    return Address(str(peer.path), -1)


async def answer_produce(header: Any, data: bytes, writer: asyncio.StreamWriter) -> None:
    response = m.ProduceResponse(responses=[])
    writer.write(codec.encode_response(response, header.api_version, header.correlation_id))


async def answer_fetch(header: Any, data: bytes, writer: asyncio.StreamWriter) -> None:
    response = m.FetchResponse(responses=[])
    writer.write(codec.encode_response(response, header.api_version, header.correlation_id))


async def answer_create_topics(header: Any, data: bytes, writer: asyncio.StreamWriter) -> None:
    response = m.CreateTopicsResponse(throttle_time_ms=7, topics=[])
    writer.write(codec.encode_response(response, header.api_version, header.correlation_id))


@pytest.fixture
async def quick(open_world: Callable[..., World]) -> World:
    """A gateway that waits 200 ms for a node and 300 ms for anybody else."""
    return open_world(limits=GatewayLimits(node_wait_ms=200, controller_wait_ms=300, coordinator_wait_ms=100))


async def test_a_node_that_dies_with_answers_owed_closes_its_clients_connections_only(quick: World) -> None:
    dying, living = await quick.peer("broker-0"), await quick.peer("broker-1")
    dying.script = dying.silent
    living.script = answer_produce
    quick.put_broker(0, dying)
    quick.put_broker(1, living)
    client, other = await quick.client(0), await quick.client(1)
    await other.ask(produce(), 9)
    client.send(frame(produce(), 9))
    await dying.received.get()
    dying.hang_up()
    assert await client.closed()
    assert (await other.ask(produce(), 9, 2)).responses == []
    assert len(dying.frames) == 1


async def test_a_node_that_dies_in_the_middle_of_an_answer_closes_the_connection(quick: World) -> None:
    peer = await quick.peer("broker-0")

    async def half(header: Any, data: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x00\x10\x00" + header.correlation_id.to_bytes(4, "big") + b"half")
        await writer.drain()
        writer.close()

    peer.script = half
    quick.put_broker(0, peer)
    client = await quick.client()
    client.send(frame(produce(), 9))
    assert await client.reader.readexactly(12) == b"\x00\x00\x10\x00\x00\x00\x00\x01half"
    assert await client.closed()


async def test_a_node_that_dies_owing_nothing_is_reached_again_by_the_next_request(quick: World) -> None:
    peer = await quick.peer("broker-0")
    peer.script = answer_produce
    quick.put_broker(0, peer)
    client = await quick.client()
    await client.ask(produce(), 9, 1)
    (connection,) = quick.gateway.connections
    peer.hang_up()
    await turns_until(lambda: connection.node is None)
    await client.ask(produce(), 9, 2)
    assert len([preamble for preamble in peer.preambles if preamble.client_host]) == 2  # the third is a knock


async def test_a_request_for_a_dead_node_waits_for_its_new_life(open_world: Callable[..., World]) -> None:
    world = open_world()
    peer = await world.peer("broker-0")
    peer.script = answer_produce
    world.put_broker(0, peer)
    await peer.stop()
    client = await world.client()
    client.send(frame(produce(), 9))
    client.send(frame(produce(), 9, 2))
    await turns_until(lambda: bool(world.gateway.away_since_ms))
    await peer.start()
    world.put_broker(0, peer, epoch=2)
    assert (await client.answer())[0] == 1
    assert (await client.answer())[0] == 2
    assert len(peer.frames) == 2


async def test_a_node_that_stays_away_is_answered_per_partition_with_a_retriable_error(quick: World) -> None:
    client = await quick.client()
    answer = await client.ask(produce(), 9)
    codes = [p.error_code for t in answer.responses for p in t.partition_responses]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


async def test_a_produce_waits_no_longer_than_its_own_timeout(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    world.put()
    client = await world.client()
    answer = await client.ask(produce(timeout_ms=50), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_another_leader_in_the_image_ends_the_wait_at_once(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    other = await world.peer("broker-1")
    world.put_broker(1, other)
    client = await world.client()
    client.send(frame(produce(), 9))
    await turns_until(lambda: bool(world.gateway.away_since_ms))
    world.put_topic("t", [1, 1])
    assert (await client.answer())[0] == 1


async def test_who_asks_a_dead_node_for_producers_is_told_of_another_leader_at_once(
    open_world: Callable[..., World],
) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    world.put_broker(1, await world.peer("broker-1"))
    client = await world.client()
    topic = m.DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    client.send(frame(m.DescribeProducersRequest(topics=[topic]), 0))
    await turns_until(lambda: bool(world.gateway.away_since_ms))
    world.put_topic("t", [1])
    _, rest = await client.answer()
    answer: Any = codec.decode_response(m.DescribeProducersRequest.API_KEY, 0, rest[1:])
    (row,) = answer.topics[0].partitions
    assert (row.partition_index, row.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_a_partition_that_moved_is_not_held_up_by_one_that_nobody_leads(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    world.put_broker(1, await world.peer("broker-1"))
    client = await world.client()
    client.send(frame(produce(), 9))
    await turns_until(lambda: bool(world.gateway.away_since_ms))
    world.put_topic("t", [-1, 1])
    assert (await client.answer())[0] == 1


@pytest.mark.parametrize("version", [4, 6, 7, 11, 12, 17])
async def test_a_fetch_from_a_dead_node_names_every_partition_it_asked_for(quick: World, version: int) -> None:
    client = await quick.client()
    topic = m.FetchRequest.FetchTopic
    partitions = [topic.FetchPartition(partition=i, partition_max_bytes=9) for i in (0, 4)]
    answer = await client.ask(m.FetchRequest(topics=[topic(topic="t", partitions=partitions)]), version)
    rows = [(p.partition_index, p.error_code) for t in answer.responses for p in t.partitions]
    assert rows == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (4, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_a_consumer_of_a_follower_is_served_on_the_connection_it_had_while_that_was_away(
    open_world: Callable[..., World],
) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    peer = await world.peer("broker-0")
    peer.script = answer_fetch
    world.put_broker(0, peer)
    world.put_broker(1, await world.peer("broker-1"))
    world.put_topic("t", [1])
    await peer.stop()
    client = await world.client(0)
    topic = m.FetchRequest.FetchTopic
    rows = [topic.FetchPartition(partition=0, partition_max_bytes=9)]
    request = m.FetchRequest(session_epoch=-1, topics=[topic(topic="t", partitions=rows)])
    (answered,) = (await client.ask(request, 12)).responses
    assert answered.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await peer.start()
    world.put_broker(0, peer, epoch=2)
    assert (await client.ask(request, 12)).responses == []  # the follower's own answer: KIP-392
    assert len(peer.frames) == 1


async def test_a_fetch_session_of_a_dead_node_is_gone_at_once(open_world: Callable[..., World]) -> None:
    client = await open_world(limits=GatewayLimits(node_wait_ms=60_000)).client()
    answer = await client.ask(m.FetchRequest(session_id=5, session_epoch=3, topics=[]), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (m.ListOffsetsRequest(topics=[]), 1),
        (m.ListOffsetsRequest(topics=[]), 10),
        (m.DeleteRecordsRequest(topics=[]), 2),
        (m.OffsetForLeaderEpochRequest(topics=[]), 4),
        (m.DescribeLogDirsRequest(topics=None), 4),
        (m.DescribeProducersRequest(topics=[]), 0),
        (m.InitProducerIdRequest(transactional_id=None), 4),
    ],
)
async def test_every_data_api_of_a_dead_node_has_an_answer(quick: World, request_: Any, version: int) -> None:
    client = await quick.client()
    await client.ask(request_, version)


async def test_a_producer_id_comes_from_another_broker_at_once(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    world.put_broker(1, await world.peer("broker-1"))
    client = await world.client()
    data = frame(m.InitProducerIdRequest(transactional_id=None), 4)
    client.send(data)
    assert await client.answer() == (1, data[4:])


async def test_acks_0_for_a_dead_node_closes_the_connection(quick: World) -> None:
    client = await quick.client()
    client.send(frame(produce(acks=0), 9))
    assert await client.closed()


async def test_a_fenced_broker_ends_the_connections_that_wait_for_it(quick: World) -> None:
    peer = await quick.peer("broker-0")
    peer.script = peer.silent
    quick.put_broker(0, peer)
    client = await quick.client()
    client.send(frame(produce(), 9))
    await peer.received.get()
    quick.put_broker(0, peer, fenced=True)
    assert await client.closed()


METADATA = m.MetadataRequest(topics=None)


async def leader_of(client: Client) -> int:
    answer = await client.ask(METADATA, 12)
    leader: int = answer.topics[0].partitions[0].leader_id
    return leader


async def led_by_node_0(world: World) -> tuple[Peer, Client, Client]:
    """Nodes 0 and 1, a topic that node 0 leads, a client of node 0 that waits for an answer, and a client of node 1."""
    peer = await world.peer("broker-0")
    peer.script = peer.silent
    world.put_broker(0, peer)
    world.put_broker(1, await world.peer("broker-1"))
    world.put_topic("t", [0])
    client, other = await world.client(0), await world.client(1)
    client.send(frame(produce(), 9))
    await peer.received.get()
    return peer, client, other


async def test_metadata_waits_for_the_new_leader_when_the_old_ones_connections_broke(
    open_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "JUDGEMENT_MS", 60_000.0)
    world = open_world()
    peer, client, other = await led_by_node_0(world)
    await peer.stop()
    assert await client.closed()
    asking = asyncio.create_task(leader_of(other))
    await turns_until(lambda: any(c.busy for c in world.gateway.connections))
    world.put_topic("t", [0, 0])  # another change is not the judgement
    partitions = (PartitionImage((0, 1), (1,), 1, 1, 1),)
    topics = {"t": TopicImage("t", UUID(int=7), partitions)}
    world.put(brokers={1: world.follower.image.brokers[1]}, topics=topics)
    assert await asking == 1


async def test_metadata_does_not_wait_when_only_a_connection_broke(
    open_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "JUDGEMENT_MS", 60_000.0)
    world = open_world()
    peer, client, other = await led_by_node_0(world)
    peer.hang_up()
    assert await client.closed()
    assert await leader_of(other) == 0


async def test_metadata_waits_no_longer_than_a_fence_takes(
    open_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "JUDGEMENT_MS", 50.0)
    world = open_world()
    peer, client, other = await led_by_node_0(world)
    await peer.stop()
    assert await client.closed()
    assert await leader_of(other) == 0
    assert await leader_of(other) == 0


async def test_a_control_request_reaches_the_controller_as_it_was_and_its_answer_comes_back(quick: World) -> None:
    controller = await quick.peer("controller-0")
    quick.put_live_broker(1)
    controller.script = answer_create_topics
    quick.follower.controller = _address(controller)
    client = await quick.client()
    data = frame(m.CreateTopicsRequest(topics=[], timeout_ms=1), 7)
    answer = await client.ask(m.CreateTopicsRequest(topics=[], timeout_ms=1), 7)
    assert (answer.throttle_time_ms, controller.frames) == (7, [data[4:]])
    assert controller.preambles[0].client_host == "127.0.0.1"


async def test_a_controller_that_comes_late_is_waited_for(quick: World) -> None:
    controller = await quick.peer("controller-0")
    quick.put_live_broker(1)
    controller.script = answer_create_topics
    await controller.stop()
    quick.follower.controller = _address(controller)
    client = await quick.client()
    data = frame(m.CreateTopicsRequest(topics=[], timeout_ms=1), 7)
    client.send(data)
    await turns_until(lambda: any(c.busy for c in quick.gateway.connections))
    await controller.start()
    assert (await client.answer())[0] == 1


@pytest.mark.parametrize("key", [19, 48, 74])
async def test_a_malformed_control_request_is_closed_at_once(quick: World, key: int) -> None:
    controller = await quick.peer("controller-0")
    quick.put_live_broker(1)
    quick.follower.controller = _address(controller)
    client = await quick.client()
    row = quick.gateway.table[key]
    client.send(struct.pack(">ihhihi", 14, key, row.min_version, 1, -1, 1_000_000))
    assert await client.closed()
    assert controller.frames == []


async def test_a_controller_that_dies_unanswered_gives_request_timed_out(quick: World) -> None:
    controller = await quick.peer("controller-0")
    quick.put_live_broker(1)
    controller.script = controller.silent
    quick.follower.controller = _address(controller)
    client = await quick.client()
    topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    client.send(frame(m.CreateTopicsRequest(topics=[topic], timeout_ms=1), 7))
    await controller.received.get()
    controller.hang_up()
    _, rest = await client.answer()
    answer = codec.decode_response(19, 7, rest[1:])
    assert [t.error_code for t in answer.topics] == [ErrorCode.REQUEST_TIMED_OUT]
    assert len(controller.frames) == 1


@pytest.mark.parametrize(("key", "version"), [(0, 10), (0, 13), (1, 16), (1, 17)])
async def test_a_refusal_names_the_new_leader_and_where_it_is(
    open_world: Callable[..., World], key: int, version: int
) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    world.put_broker(1, await world.peer("broker-1"))
    world.put_topic("t", [1, 1])
    client = await world.client()
    topic_id = world.follower.image.topics["t"].topic_id
    fetched = m.FetchRequest.FetchTopic
    request: Any = m.FetchRequest(
        topics=[fetched(topic="t", topic_id=topic_id, partitions=[fetched.FetchPartition(partition=1)])]
    )
    if key == 0:
        request = produce()
        request.topic_data[0].topic_id = topic_id
    answer = await client.ask(request, version)
    (topic,) = answer.responses
    partition = (topic.partition_responses if key == 0 else topic.partitions)[0]
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 0)
    ports = [(e.node_id, e.host, e.port) for e in answer.node_endpoints]
    assert ports == [(1, "127.0.0.1", world.listener.base_port + 1)]


@pytest.mark.parametrize(("key", "version"), [(0, 9), (0, 10), (0, 13), (1, 12), (1, 16), (1, 17)])
async def test_of_a_topic_without_rights_a_refusal_tells_neither_leader_nor_epoch(
    open_world: Callable[..., World], key: int, version: int
) -> None:
    world = open_world(limits=GatewayLimits(node_wait_ms=60_000))
    world.gateway.authorizer = authorizer = Recorder(lambda asked: asked.name == "t")
    world.put_broker(1, await world.peer("broker-1"))
    ids = {"t": UUID(int=5), "secret": UUID(int=6)}
    for name, topic_id in ids.items():
        world.put_topic(name, [1, 1], topic_id)
    client = await world.client()
    for names in (["secret"], ["secret", "t"]):
        written, fetched = m.ProduceRequest.TopicProduceData, m.FetchRequest.FetchTopic
        rows = [written.PartitionProduceData(index=1, records=b"records")]
        produced = [written(name=name, topic_id=ids[name], partition_data=rows) for name in names]
        partitions = [fetched.FetchPartition(partition=1)]
        topics = [fetched(topic=name, topic_id=ids[name], partitions=partitions) for name in names]
        request: Any = m.FetchRequest(topics=topics)
        if key == 0:
            request = m.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=produced)
        found = {}
        for topic in (await client.ask(request, version)).responses:
            name = (topic.name if key == 0 else topic.topic) or {one: name for name, one in ids.items()}[topic.topic_id]
            (row,) = topic.partition_responses if key == 0 else topic.partitions
            hint = getattr(row, "current_leader", None)
            found[name] = row.error_code, -1 if hint is None else hint.leader_id
        hinted = 1 if version in (10, 13, 16, 17) else -1
        told = {"secret": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1), "t": (ErrorCode.NOT_LEADER_OR_FOLLOWER, hinted)}
        assert found == {name: told[name] for name in names}
    assert {one.operation for one in authorizer.asked} == {"WRITE" if key == 0 else "READ"}

"""Bounds in time and quota, and who may speak for whom."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.gateway import Client, World
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.metadata.image import BrokerImage
from tailrace.metadata.records import Endpoint
from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.quotas.meter import Unmetered
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace_gateway.gateway import Advertised, GatewayLimits
from tailrace_gateway.listener import InternalListener
from tailrace_gateway.versions import ServedVersions

LARGE_ANSWER = 6_000_000
QUICK = GatewayLimits(head_ms=60, dribble_ms=60, dribble_bytes=100, idle_ms=400)


def produce(correlation_id: int, size: int = 100) -> bytes:
    topic = m.ProduceRequest.TopicProduceData
    data = [topic(name="t", partition_data=[topic.PartitionProduceData(index=0, records=b"r" * size)])]
    return codec.encode_request(m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 9, correlation_id, "test")


@pytest.fixture
async def swept(open_world: Callable[..., World]) -> World:
    world = open_world(limits=QUICK)
    world.put_broker(0, await world.peer("broker-0"))
    world.sweep()
    return world


def whys(world: World) -> list[str]:
    return [line["why"] for line in world.logged() if line["event"] == "connection closed"]


async def test_a_head_that_never_becomes_whole_is_closed(swept: World) -> None:
    client = await swept.client()
    client.send(b"\x00\x00\x00")
    assert await client.closed()
    assert whys(swept)[0].startswith("no whole request head within")


async def test_a_frame_that_comes_too_slowly_is_closed(swept: World) -> None:
    client = await swept.client()
    client.send(produce(1, 10_000)[:300])
    assert await client.closed()
    assert "bytes in" in whys(swept)[0]


async def test_an_idle_connection_is_closed_without_a_word(swept: World) -> None:
    client = await swept.client()
    client.send(produce(1))
    await client.answer()
    assert await client.closed()
    assert whys(swept) == []


async def test_a_connection_that_waits_for_an_answer_is_not_idle(swept: World) -> None:
    (peer,) = swept.peers
    release = asyncio.Event()

    async def late(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await peer.echo(header, frame, writer)

    peer.script = late
    waiting, idle = await swept.client(), await swept.client()
    waiting.send(produce(1))
    assert await idle.closed()  # as long as that takes, the other one waited, too
    release.set()
    assert (await waiting.answer())[0] == 1


async def test_a_client_that_takes_no_answer_is_closed_in_the_end(swept: World) -> None:
    (peer,) = swept.peers

    async def flood(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(struct.pack(">ii", 4 + 32_000_000, header.correlation_id) + bytes(32_000_000))

    peer.script = flood
    client = await swept.client(receive_bytes=4096)
    client.transport.pause_reading()
    client.send(produce(1))
    await peer.received.get()
    (connection,) = swept.gateway.connections
    await turns_until(lambda: connection.closed)
    assert whys(swept)[0].startswith("the client has taken no answer")


class Meter(Unmetered):
    """Throttles what was charged each time."""

    produce_limited = fetch_limited = True

    def __init__(self, throttle_ms: int = 100) -> None:
        self.charges = 0
        self.throttle_ms = throttle_ms

    def produced(self, size_bytes: int) -> int:
        self.charges += 1
        return self.throttle_ms

    def fetched(self, size_bytes: int) -> int:
        self.charges += 1
        return self.throttle_ms

    def fetch_max_bytes(self) -> int:
        return 1 << 20


async def answered(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
    response = m.ProduceResponse(responses=[]) if header.api_key == 0 else m.FetchResponse(responses=[])
    writer.write(codec.encode_response(response, header.api_version, header.correlation_id))


async def throttled(client: Client, request: Any, version: int) -> tuple[int, float]:
    """throttle_time_ms of the first of two requests, and the milliseconds from it until the second is answered."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    client.send(codec.encode_request(request, version, 1, "c"))
    _, rest = await client.answer()
    client.send(codec.encode_request(request, version, 2, "c"))
    frame = memoryview(b"\x00\x00\x00\x01" + rest)
    answer = codec.decode_response(request.API_KEY, version, codec.response_body(request.API_KEY, version, frame))
    await client.answer()
    return answer.throttle_time_ms, (loop.time() - began) * 1000


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (m.ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9),
        (m.ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 3),
        (m.FetchRequest(topics=[]), 12),
        (m.FetchRequest(topics=[]), 4),
    ],
)
async def test_over_quota_is_answered_at_once_with_its_time_and_then_muted(
    open_world: Callable[..., World], request_: Any, version: int
) -> None:
    meter = Meter()
    world = open_world(meter_of=lambda broker_id, client_id, user: meter)
    peer = await world.peer("broker-0")
    peer.script = answered
    world.put_broker(0, peer)
    throttle_time_ms, waited_ms = await throttled(await world.client(), request_, version)
    assert throttle_time_ms == 100
    assert 99 <= waited_ms < 5000
    assert meter.charges == 2


async def test_a_muted_connection_keeps_no_other_waiting(open_world: Callable[..., World]) -> None:
    meter = Meter()
    world = open_world(meter_of=lambda broker_id, client_id, user: meter)
    peer = await world.peer("broker-0")
    peer.script = answered
    world.put_broker(0, peer)
    muted, other = await world.client(), await world.client()
    muted.send(produce(1))
    await muted.answer()
    assert (await other.ask(m.MetadataRequest(topics=[]), 9)).brokers


def preamble(**fields: Any) -> bytes:
    said = {"principal": "User:a", "client_host": "10.1.1.1", "client_port": 5, "listener": "CLIENT", **fields}
    return codec.encode_request(m.PreambleRequest(**said), 0, 77, "relay")


async def internal_client(world: World) -> Client:
    reader, writer = await asyncio.open_unix_connection(str(world.directory / "gateway-0.sock"))
    client = Client(reader, writer)
    world.clients.append(client)
    return client


@pytest.fixture
async def beside_brokers(open_world: Callable[..., World]) -> World:
    """Clients are told the brokers' own listeners; brokers relay over the gateway's Unix socket."""
    world = open_world(advertised=Advertised(brokers=True))
    peer = await world.peer("broker-3")
    endpoints = (*peer.endpoints, Endpoint("CLIENT", "b3.example", 7003))
    world.put(brokers={3: BrokerImage(3, 1, UUID(int=1), endpoints, None, False)})
    world.internal = InternalListener(world.gateway, str(world.directory / "gateway-0.sock"))
    return world


async def test_a_broker_relays_for_a_client_it_introduces(beside_brokers: World) -> None:
    client = await internal_client(beside_brokers)
    client.send(preamble(node_id=3))
    assert (await client.answer())[0] == 77
    answer = await client.ask(m.MetadataRequest(topics=[]), 9)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(3, "b3.example", 7003)]
    client.send(produce(5))
    assert (await client.answer())[0] == 5
    (peer,) = beside_brokers.peers
    said = peer.preambles[0]
    assert (said.principal, said.client_host, said.node_id) == ("User:a", "10.1.1.1", 3)


async def test_a_client_introduced_without_its_node_is_found_by_the_port_it_came_by(beside_brokers: World) -> None:
    client = await internal_client(beside_brokers)
    client.send(preamble(base_port=7003))
    await client.answer()
    assert [c.node_id for c in beside_brokers.gateway.connections] == [3]


async def test_nothing_is_answered_on_the_internal_socket_before_the_preamble(beside_brokers: World) -> None:
    client = await internal_client(beside_brokers)
    client.send(codec.encode_request(m.MetadataRequest(topics=[]), 9, 1, "x"))
    assert await client.closed()


async def test_the_preamble_is_refused_on_a_public_port(beside_brokers: World) -> None:
    client = await beside_brokers.client()
    client.send(preamble())
    assert await client.closed()


async def test_versions_are_clamped_to_what_the_brokers_say(open_world: Callable[..., World]) -> None:
    world = open_world()
    world.follower.subscribe(ServedVersions(world.gateway).image_changed)
    peer = await world.peer("broker-0")

    async def versions(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        row = m.ApiVersionsResponse.ApiVersion
        served = [row(api_key=key, min_version=5, max_version=7) for key in (0, 1)]
        response = m.ApiVersionsResponse(api_keys=served)
        writer.write(codec.encode_response(response, header.api_version, header.correlation_id))

    peer.script = versions
    world.put_broker(0, peer)
    while world.gateway.background:
        await asyncio.gather(*world.gateway.background)
    client = await world.client()
    answer = await client.ask(m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    rows = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert rows[ApiKey.FETCH] == (5, 7)
    assert rows[ApiKey.PRODUCE] == (0, 7)
    assert ApiKey.LIST_OFFSETS not in rows
    assert rows[ApiKey.JOIN_GROUP] == (0, INTERNAL_APIS[ApiKey.JOIN_GROUP].max_version)


async def test_a_topic_named_in_metadata_is_created_once_at_a_time(world: World) -> None:
    created = asyncio.get_running_loop().create_future()
    result = m.CreateTopicsResponse.CreatableTopicResult

    def answer(message: Any) -> Any:
        created.set_result(message)
        return m.CreateTopicsResponse(topics=[result(name="new", error_code=0)])

    world.follower.answer = answer
    client = await world.client()
    asked = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name="new")])
    first = await client.ask(asked, 9)
    assert first.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (topic,) = (await created).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("new", -1, -1)
    world.put_topic("new", [0])
    assert (await client.ask(asked, 9, 2)).topics[0].error_code == ErrorCode.NONE


async def test_a_new_broker_gets_a_port_and_a_dead_one_keeps_it(world: World) -> None:
    world.put_broker(2, await world.peer("broker-2"))
    client = await world.client(2)
    assert (await client.ask(m.MetadataRequest(topics=[]), 9)).controller_id == 2
    brokers = dict(world.follower.image.brokers)
    brokers[2] = replace(brokers[2], fenced=True)
    world.put(brokers=brokers)
    world.put(brokers={0: brokers[0]})
    again = await world.client(2)
    assert (await again.ask(m.MetadataRequest(topics=[]), 9)).controller_id == 0


async def test_two_gateways_share_a_port(open_world: Callable[..., World]) -> None:
    first, second = open_world(), open_world()
    first.put_live_broker(0)
    second.put_live_broker(0)
    second.listener.close()
    second.listener.base_port = first.listener.base_port
    second.listener.open_node(0)
    clients = [await first.client() for _ in range(40)]
    answers = [await client.ask(m.MetadataRequest(topics=[]), 9) for client in clients]
    assert len(answers) == 40
    assert len(first.gateway.connections) + len(second.gateway.connections) == 40


async def test_a_gateway_that_stops_answers_what_was_asked(world: World) -> None:
    (peer,) = world.peers
    release = asyncio.Event()

    async def late(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await peer.echo(header, frame, writer)

    peer.script = late
    asking, quiet = await world.client(), await world.client()
    quiet.send(codec.encode_request(m.MetadataRequest(topics=[]), 9, 1, "x"))
    await quiet.answer()
    asking.send(produce(1))
    await peer.received.get()
    for connection in list(world.gateway.connections):
        connection.finish()
    assert await quiet.closed()
    release.set()
    assert (await asking.answer())[0] == 1
    assert await asking.closed()
    await world.gateway.all_closed()


async def test_a_request_too_large_to_be_kept_is_closed(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(max_collected_bytes=1000))
    world.put_live_broker(0)
    client = await world.client()
    client.send(codec.encode_request(m.MetadataRequest(topics=[]), 9, 1, "x"))
    await client.answer()
    client.send(struct.pack(">ihhih", 1001, 3, 9, 1, -1))
    assert await client.closed()
    assert "cannot be kept" in whys(world)[0]


@pytest.mark.parametrize(("idle_ms", "expected"), [(-1, 5000), (0, 5000), (600_000, 5000), (1000, 500), (1, 10)])
async def test_the_sweep_is_no_busier_than_its_shortest_bound(
    open_world: Callable[..., World], idle_ms: float, expected: float
) -> None:
    world = open_world(limits=GatewayLimits(idle_ms=idle_ms))
    world.sweep()
    assert world.deadline_check is not None and world.deadline_check.deadlines.interval_ms == expected


async def test_large_answers_come_one_after_the_other_where_clients_do_not_take_them(
    open_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway receives no more of them than its budget holds, whoever asks."""
    monkeypatch.setattr(AnswerMemory.__init__, "__defaults__", (LARGE_ANSWER + 1_000, None))
    world = open_world()
    world.put_broker(0, await world.peer("broker-0"))
    world.put_topic("__consumer_offsets", [0])
    owner = await world.peer("coordinator-0")
    world.put_coordinators({0: 0}, {0: owner})

    async def large(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(struct.pack(">ii", 4 + LARGE_ANSWER, header.correlation_id) + bytes(LARGE_ANSWER))

    owner.script = large
    clients = [await world.client(receive_bytes=65_536) for _ in range(3)]
    request = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for client in clients:
        client.transport.pause_reading()
        client.send(codec.encode_request(request, 3, 1, "test"))
    answers = world.gateway.memory.answers
    await turns_until(lambda: answers.waiting_count == 2)
    assert answers.held_bytes == LARGE_ANSWER + 8
    clients[0].writer.transport.abort()  # one that leaves makes room, too
    for client in clients[1:]:
        client.transport.resume_reading()
        assert len((await client.answer())[1]) == LARGE_ANSWER
    await turns_until(lambda: not answers.held_bytes)


async def test_with_few_descriptors_left_idle_connections_make_room(world: World) -> None:
    world.put_broker(0, await world.peer("broker-0"))
    first, second = await world.client(), await world.client()
    for client in (first, second):
        await client.ask(m.ApiVersionsRequest(), 0)
    world.listener.most_descriptor = -1
    third = await world.client()
    await third.ask(m.ApiVersionsRequest(), 0)
    assert len(world.gateway.connections) == 2


async def test_with_few_descriptors_left_and_nothing_idle_a_connection_is_closed_with_a_reason(world: World) -> None:
    world.put_broker(0, await world.peer("broker-0"))
    begun = await world.client()
    begun.send(produce(1)[:20])
    await turns_until(lambda: any(not connection.is_idle for connection in world.gateway.connections))
    world.listener.most_descriptor = -1
    assert await (await world.client()).closed()
    assert whys(world) == ["few file descriptors are left"]

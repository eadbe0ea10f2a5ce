"""Connections handed over to a real broker in the same process, by a gateway that keeps the rest of their requests."""

import asyncio
import gc
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from support.broker import TOPIC_ID, Running, batch, running
from support.gateway import BOOT_ID, Client, World
from support.waiting import turns_until
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import BrokerImage, PartitionImage, ServiceImage, TopicImage
from tailrace.metadata.records import Endpoint
from tailrace.net.client import Client as AskingClient
from tailrace.net.connection import Connection
from tailrace.net.context import Connected
from tailrace.net.identity import Identity
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.request_memory import Share
from tailrace.net.quotas.meter import unmetered
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace_broker.connections import client_listener
from tailrace_broker.connections.adopted import AdoptedConnection
from tailrace_broker.fetch.delayed import DelayedFetch
from tailrace_gateway.app import close_connections
from tailrace_gateway.clients.handover import Handover
from tailrace_gateway.gateway import Advertised, GatewayLimits
from tailrace_gateway.listener import InternalListener


class Pair:
    """A gateway's world and the broker of its node 0."""

    def __init__(self, world: World, broker: Running) -> None:
        self.world = world
        self.broker = broker

    @property
    def handed_over(self) -> list[Any]:
        return [link for link in self.world.gateway.connections if link.handed_over]

    @property
    def adopted(self) -> Any:
        return self.broker.listener.adopted

    async def handed(self) -> Client:
        """A client whose socket is the broker's by now."""
        client = await self.world.client()
        before = self.adopted.count
        answer = await client.ask(produce_request(b"first"), 12)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert self.adopted.count == before + 1
        return client


@asynccontextmanager
async def paired(
    path: Path, limits: GatewayLimits | None = None, meter_of: Any = unmetered, **configs: Any
) -> AsyncIterator[Pair]:
    path.joinpath("w").mkdir()
    async with running(path, **configs) as broker:
        world = World(path / "w", limits or GatewayLimits(), meter_of, Advertised())
        world.gateway.handover = Handover(world.gateway, wanted=True)
        world.internal = InternalListener(world.gateway, str(path / "w" / "gateway.sock"))
        broker_image = BrokerImage(
            0, 1, UUID(int=1), (Endpoint(f"UNIX-{BOOT_ID}", broker.address.host, 0),), None, False
        )
        world.put(brokers={0: broker_image})
        world.put_topic("t", [0, 0, 1], TOPIC_ID)
        endpoint = (Endpoint(f"UNIX-{BOOT_ID}", world.internal.path, 0),)
        broker.follower.move(services={("gateway", 0): ServiceImage("gateway", 0, 1, UUID(int=1), endpoint)})
        try:
            yield Pair(world, broker)
        finally:
            await world.close()


def produce_request(value: bytes, acks: int = 1) -> m.ProduceRequest:
    topic = m.ProduceRequest.TopicProduceData
    row = topic.PartitionProduceData(index=0, records=batch(value))
    return m.ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[topic(name="t", partition_data=[row])]
    )


def produce(correlation_id: int, value: bytes, acks: int = 1) -> bytes:
    return codec.encode_request(produce_request(value, acks), 12, correlation_id, "test")


def metadata(correlation_id: int) -> bytes:
    return codec.encode_request(m.MetadataRequest(topics=None), 8, correlation_id, "test")


def fetch(broker: Running, correlation_id: int, offset: int = 0, **fields: Any) -> bytes:
    request = broker.fetch_request(0, offset, session_epoch=-1, **fields)
    return codec.encode_request(request, 12, correlation_id, "test")


def base_offset(correlation_id: int, rest: bytes) -> int:
    frame = struct.pack(">i", correlation_id) + rest
    answer = codec.decode_response(ApiKey.PRODUCE, 12, codec.response_body(ApiKey.PRODUCE, 12, memoryview(frame)))
    row = answer.responses[0].partition_responses[0]
    assert row.error_code == 0
    return int(row.base_offset)


@pytest.mark.parametrize("seed", range(4))
async def test_requests_of_all_kinds_keep_their_order_however_the_bytes_arrive(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kinds = [chance.choice("pppmf") for _ in range(60)]
    async with paired(tmp_path) as pair:
        client = await pair.world.client()
        stream = b""
        for n, kind in enumerate(kinds):
            stream += produce(n, b"%d" % n) if kind == "p" else metadata(n) if kind == "m" else fetch(pair.broker, n)
        while stream:
            cut = chance.randrange(1, 400)
            client.send(stream[:cut])
            stream = stream[cut:]
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        offsets = []
        for n, kind in enumerate(kinds):
            got, rest = await client.answer()
            assert got == n
            if kind == "p":
                offsets.append(base_offset(got, rest))
        assert offsets == list(range(len(offsets)))
        assert (pair.adopted.count, pair.world.gateway.handover.count) == (1, 1)


async def test_what_was_read_before_the_handover_goes_with_the_socket(tmp_path: Path) -> None:
    """Many requests come with the first one, the last of them only by half."""
    async with paired(tmp_path) as pair:
        client = await pair.world.client()
        frames = [produce(n, b"x" * 5000) for n in range(12)]
        whole = b"".join(frames)
        client.send(whole[:-2500])
        for n in range(11):
            got, rest = await client.answer()
            assert (got, base_offset(got, rest)) == (n, n)
        assert pair.adopted.count == 1
        client.send(whole[-2500:])
        got, rest = await client.answer()
        assert (got, base_offset(got, rest)) == (11, 11)


async def test_a_client_that_is_told_an_address_is_told_it_by_the_broker_too(tmp_path: Path) -> None:
    """KIP-951: the broker's leader hints name the address that this client came by."""
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        topic = m.ProduceRequest.TopicProduceData
        row = topic.PartitionProduceData(index=2, records=batch(b"a"))
        elsewhere = m.ProduceRequest(
            transactional_id=None, acks=1, timeout_ms=1000, topic_data=[topic(name="t", partition_data=[row])]
        )
        answer = await client.ask(elsewhere, 12)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        port = pair.world.listener.base_port
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(1, "127.0.0.1", port + 1)]


async def test_records_without_acks_are_all_there(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.world.client()
        client.send(b"".join(produce(n, b"%d" % n, acks=0) for n in range(20)) + produce(20, b"end"))
        got, rest = await client.answer()
        assert (got, base_offset(got, rest)) == (20, 20)


async def test_a_connection_without_data_requests_stays(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.world.client()
        await client.ask(m.MetadataRequest(topics=None), 8)
        assert pair.adopted.count == 0
        assert not pair.handed_over


async def test_a_client_that_leaves_is_forgotten_on_both_sides(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        assert (len(pair.adopted), len(pair.handed_over)) == (1, 1)
        client.writer.close()
        await turns_until(lambda: not pair.handed_over and not len(pair.adopted))
        assert pair.world.gateway.closed_connections == 1


async def test_a_client_that_leaves_while_it_is_handed_over_harms_nobody(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        for _ in range(10):
            client = await pair.world.client()
            client.send(produce(1, b"gone")[:-3])
            client.writer.transport.abort()
        await turns_until(lambda: not pair.world.gateway.connections and not len(pair.adopted))
        await pair.handed()


async def test_connections_handed_over_count_among_the_gateways_own(tmp_path: Path) -> None:
    async with paired(tmp_path, GatewayLimits(max_connections=2)) as pair:
        first, _ = await pair.handed(), await pair.handed()
        refused = await pair.world.client()
        assert await refused.closed()
        first.writer.close()
        await turns_until(lambda: len(pair.world.gateway.connections) == 1)
        await pair.handed()


async def test_a_frame_that_is_not_kafkas_closes_a_connection_handed_over(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        for wrong in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">ihhih", 10, 999, 0, 7, -1)):
            client = await pair.handed()
            client.send(wrong)
            assert await client.closed()
        await turns_until(lambda: not pair.handed_over and not len(pair.adopted))


LIMITED = {(("client-id", "limited"),): {"producer_byte_rate": 1000.0}}
TEST_LIMITED = {(("client-id", "test"),): {"producer_byte_rate": 1000.0}}
LONGEST_MS = 30  # above a quota every Produce here is told that


async def throttled_by(client: Client, value: bytes = b"x" * 1000) -> int:
    answer = await client.ask(produce_request(value), 12)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


async def test_a_client_that_a_quota_limits_is_handed_over_and_charged_by_the_broker(tmp_path: Path) -> None:
    async with paired(tmp_path, quota_max_throttle_ms=str(LONGEST_MS)) as pair:
        pair.broker.follower.move(quotas=TEST_LIMITED)
        client = await pair.world.client()
        assert [await throttled_by(client) for _ in range(3)] == [LONGEST_MS] * 3
        assert (pair.adopted.count, len(pair.handed_over)) == (1, 1)
        pair.broker.follower.move(quotas={})
        assert await throttled_by(client) == 0


async def test_a_quota_that_comes_later_is_charged_from_the_next_request_on(tmp_path: Path) -> None:
    """On the same connection, and nothing is lost or answered twice."""
    async with paired(tmp_path, quota_max_throttle_ms=str(LONGEST_MS)) as pair:
        client, waiting = await pair.handed(), await pair.handed()
        waiting.send(fetch(pair.broker, 5, offset=2, max_wait_ms=30_000) + produce(6, b"read already"))
        await turns_until(lambda: pair.broker.broker.wakeups.purgatory.count(DelayedFetch) == 1)
        pair.broker.follower.move(quotas=TEST_LIMITED)
        assert (await pair.broker.produce(0, batch(b"wakes"))).base_offset == 2
        assert (await waiting.answer())[0] == 5
        got, rest = await waiting.answer()
        assert (got, base_offset(got, rest)) == (6, 3)
        assert [await throttled_by(each) for each in (client, waiting)] == [LONGEST_MS] * 2
        assert (pair.adopted.count, len(pair.handed_over)) == (2, 2)


@pytest.mark.parametrize("seed", range(4))
async def test_a_quota_comes_whatever_of_the_clients_stream_has_come(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice([10, 3000, 300_000]) for _ in range(30)]
    async with paired(tmp_path, quota_max_throttle_ms="1") as pair:
        client = await pair.handed()
        stream = b"".join(produce(n, b"%d" % n * (size // 2)) for n, size in enumerate(sizes))
        turn = chance.randrange(len(stream))
        client.send(stream[:turn])
        for _ in range(chance.randrange(20)):
            await asyncio.sleep(0)
        pair.broker.follower.move(quotas=TEST_LIMITED)
        client.send(stream[turn:])
        offsets = []
        for n in range(len(sizes)):
            got, rest = await client.answer()
            assert got == n
            offsets.append(base_offset(got, rest))
        assert offsets == list(range(1, len(sizes) + 1))


async def test_another_client_id_does_not_escape_its_quota(tmp_path: Path) -> None:
    async with paired(tmp_path, quota_max_throttle_ms=str(LONGEST_MS)) as pair:
        pair.broker.follower.move(quotas=LIMITED)
        client = await pair.handed()
        found = []
        for name in ("limited", "test", "limited", None):
            client.send(codec.encode_request(produce_request(b"x" * 1000), 12, 7, name))
            got, rest = await client.answer()
            body = codec.response_body(ApiKey.PRODUCE, 12, memoryview(struct.pack(">i", got) + rest))
            found.append(codec.decode_response(ApiKey.PRODUCE, 12, body).throttle_time_ms)
        assert found == [LONGEST_MS, 0, LONGEST_MS, 0]


async def test_a_quota_that_comes_while_the_socket_is_on_its_way_holds(tmp_path: Path) -> None:
    async with paired(tmp_path, quota_max_throttle_ms=str(LONGEST_MS)) as pair:
        client = await pair.world.client()
        client.send(produce(1, b"a"))
        await turns_until(lambda: pair.adopted.awaited_count == 1)
        pair.broker.follower.move(quotas=TEST_LIMITED)
        assert (await client.answer())[0] == 1
        assert await throttled_by(client) == LONGEST_MS


async def test_a_client_id_that_is_not_utf8_harms_nobody(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        name = b"\xff" * 32_767
        plain = produce(1, b"a")
        head, body = plain[4:12], plain[12 + 2 + len(b"test") :]
        odd = head + struct.pack(">h", len(name)) + name + body
        client = await pair.world.client()
        client.send(struct.pack(">i", len(odd)) + odd)
        assert (await client.answer())[0] == 1
        for quotas in (LIMITED, TEST_LIMITED):
            pair.broker.follower.move(quotas=quotas)
            client.send(struct.pack(">i", len(odd)) + odd)
            assert (await client.answer())[0] == 1


async def test_requests_are_counted_where_they_are_answered(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        client.send(fetch(pair.broker, 1) + metadata(2) + produce(3, b"b"))
        assert [(await client.answer())[0] for _ in range(3)] == [1, 2, 3]
        counted = {key: n for key, n in enumerate(pair.adopted.server.service.request_metrics.counts) if n}
        assert counted == {ApiKey.PRODUCE: 2, ApiKey.FETCH: 1}
        assert {key: n for key, n in enumerate(pair.world.gateway.request_metrics.counts) if n} == {ApiKey.METADATA: 1}
        times = pair.adopted.server.service.request_metrics.total
        assert {key: sum(times[key].buckets) for key in times} == counted  # each once, whoever answers what is between


async def orphaned(pair: Pair) -> Client:
    """A client whose gateway has gone since it was handed over."""
    client = await pair.handed()
    for link in pair.handed_over:
        link.finish()
    await turns_until(lambda: not pair.world.gateway.connections)
    return client


async def test_a_quota_holds_without_any_gateway(tmp_path: Path) -> None:
    """The process that holds the socket charges."""
    async with paired(tmp_path, quota_max_throttle_ms=str(LONGEST_MS)) as pair:
        client = await orphaned(pair)
        pair.broker.follower.move(services={})
        pair.broker.follower.move(quotas=TEST_LIMITED)
        assert [await throttled_by(client) for _ in range(2)] == [LONGEST_MS] * 2


async def test_limits_in_time_hold_for_connections_handed_over(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        deadlines = ConnectionDeadlines(idle_ms=400, head_ms=60, dribble_ms=60, dribble_bytes=100)
        pair.adopted.server.deadline_check.deadlines = deadlines
        torn, dribbling, idle = [await pair.handed() for _ in range(3)]
        torn.send(produce(1, b"x")[:5])
        dribbling.send(produce(1, b"x" * 1000)[:200])
        for client in (torn, dribbling, idle):
            assert await client.closed()
        await turns_until(lambda: not pair.world.gateway.connections)


async def test_a_client_that_ends_its_side_gets_its_answers_first(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        client.send(fetch(pair.broker, 1, offset=1, max_wait_ms=30_000))
        client.send(produce(2, b"a") + metadata(3) + produce(4, b"b") + metadata(5))
        client.writer.write_eof()
        await turns_until(lambda: pair.broker.broker.wakeups.purgatory.count(DelayedFetch) == 1)
        await pair.broker.produce(0, batch(b"wakes"))
        assert [(await client.answer())[0] for _ in range(5)] == [1, 2, 3, 4, 5]
        assert await client.closed()
        await turns_until(lambda: not pair.world.gateway.connections and not len(pair.adopted))


@pytest.mark.parametrize("kind", ["relayed", "the broker's own"])
async def test_the_last_answer_reaches_a_client_that_has_ended_its_side(tmp_path: Path, kind: str) -> None:
    partition = m.ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=5
    )
    topic = m.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[partition])
    by_time = m.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
    async with paired(tmp_path) as pair:
        for _ in range(5):
            client = await pair.handed()
            client.send(metadata(7) if kind == "relayed" else codec.encode_request(by_time, 6, 7, "test"))
            client.writer.write_eof()
            assert (await client.answer())[0] == 7
            assert await client.closed()
        await turns_until(lambda: not pair.world.gateway.connections and not len(pair.adopted))


async def test_a_member_that_left_is_not_waited_for_through_a_rebalance(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        coordinator = await pair.world.peer("coordinator")
        coordinator.script = coordinator.silent
        pair.world.put_coordinators({n: 0 for n in range(50)}, {0: coordinator})
        offsets = TopicImage("__consumer_offsets", UUID(int=9), (PartitionImage((0,), (0,), 0, 0, 0),) * 50)
        pair.world.put(topics={**pair.world.follower.image.topics, "__consumer_offsets": offsets})
        client = await pair.handed()
        join = m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="consumer",
            protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        client.send(codec.encode_request(join, 3, 1, "test"))
        await coordinator.received.get()
        client.writer.write_eof()
        assert await client.closed()
        await turns_until(lambda: not pair.world.gateway.connections and not len(pair.adopted))


async def test_private_requests_are_not_relayed_for_a_client(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        for request in (m.AdoptConnectionRequest(client_id="x"), m.PreambleRequest(**Identity()._asdict())):
            client = await pair.handed()
            client.send(codec.encode_request(request, 0, 1, "test"))
            assert await client.closed()


async def test_the_clients_of_a_broker_that_was_given_up_are_closed(tmp_path: Path) -> None:
    """One that hangs cannot close them itself."""
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        client.send(fetch(pair.broker, 5, offset=1, max_wait_ms=30_000))
        await turns_until(lambda: pair.broker.broker.wakeups.purgatory.count(DelayedFetch) == 1)
        pair.world.put(brokers={0: replace(pair.world.follower.image.brokers[0], fenced=True)})
        assert await client.closed()
        await turns_until(lambda: not pair.world.gateway.connections)


async def test_the_gateways_death_leaves_the_data_path_alone(tmp_path: Path) -> None:
    """Relayed requests find another gateway: here, the same one again."""
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        client.send(fetch(pair.broker, 1, offset=1, max_wait_ms=30_000))
        await turns_until(lambda: pair.broker.broker.wakeups.purgatory.count(DelayedFetch) == 1)
        for link in pair.handed_over:
            link.finish()
        await pair.broker.produce(0, batch(b"second"))
        assert (await client.answer())[0] == 1
        client.send(produce(2, b"third") + metadata(3) + produce(4, b"fourth"))
        assert [(await client.answer())[0] for _ in range(3)] == [2, 3, 4]


async def test_a_gateway_that_stops_leaves_its_clients_to_the_broker(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        client.send(fetch(pair.broker, 1, offset=1, max_wait_ms=30_000))
        await turns_until(lambda: pair.broker.broker.wakeups.purgatory.count(DelayedFetch) == 1)
        await close_connections(pair.world.gateway)
        assert not pair.world.gateway.connections
        await pair.broker.produce(0, batch(b"second"))
        assert (await client.answer())[0] == 1
        client.send(produce(2, b"third") + metadata(3))  # the latter by the next gateway: here, the same one again
        assert [(await client.answer())[0] for _ in range(2)] == [2, 3]


async def test_a_broker_that_does_not_answer_the_offer_is_relayed_to(tmp_path: Path) -> None:
    async with paired(tmp_path, GatewayLimits(connect_ms=50)) as pair:
        hangs = await pair.world.peer("hangs")

        async def deaf_to_offers(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
            if header.api_key != ApiKey.ADOPT_CONNECTION:
                await hangs.echo(header, frame, writer)

        hangs.script = deaf_to_offers
        pair.world.put_broker(0, hangs)
        client = await pair.world.client()
        client.send(produce(1, b"a"))
        assert (await client.answer())[0] == 1
        assert not pair.handed_over


async def test_a_relayed_request_without_any_gateway_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_listener, "_ABSENT_MS", 10.0)
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        pair.broker.follower.move(services={})
        for link in pair.handed_over:
            link.finish()
        client.send(produce(2, b"a") + metadata(3))
        assert (await client.answer())[0] == 2
        assert await client.closed()


async def test_the_brokers_end_closes_the_connection_as_kafkas_would(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        client = await pair.handed()
        await pair.adopted.close()
        assert await client.closed()
        await turns_until(lambda: not pair.world.gateway.connections)


async def test_a_broker_that_takes_none_over_is_relayed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(connection: Connected) -> None:
        raise ApiError(ErrorCode.INVALID_REQUEST)

    async with paired(tmp_path) as pair:
        monkeypatch.setattr(pair.adopted, "expect", refuse)
        client = await pair.world.client()
        client.send(produce(1, b"a") + metadata(2) + produce(3, b"b"))
        assert [(await client.answer())[0] for _ in range(3)] == [1, 2, 3]
        assert not pair.handed_over


async def test_a_broker_on_another_host_is_relayed_to(tmp_path: Path) -> None:
    async with paired(tmp_path, GatewayLimits(node_wait_ms=10)) as pair:
        image = pair.world.follower.image.brokers[0]
        tcp = replace(image, endpoints=(Endpoint("UNIX-another-boot", "/nowhere", 0), *image.endpoints[1:]))
        pair.world.put(brokers={0: tcp})
        client = await pair.world.client()
        client.send(metadata(1))
        assert (await client.answer())[0] == 1
        client.send(produce(2, b"a"))
        await client.answer()
        assert pair.world.gateway.handover.count == 0


async def test_large_answers_and_deaf_clients_are_bounded_as_on_any_socket(tmp_path: Path) -> None:
    async with paired(tmp_path) as pair:
        size = 400_000
        await pair.broker.produce(0, batch(b"l" * size))
        client = await pair.world.client(receive_bytes=8192)
        requests = 100
        client.send(b"".join(fetch(pair.broker, n) for n in range(requests)))
        await turns_until(lambda: pair.adopted.count == 1)
        metrics = pair.broker.broker.metrics
        assert (await pair.broker.produce(1, batch(b"others are served"))).error_code == 0
        assert metrics.bytes_out < requests * size / 4
        for n in range(requests):
            got, rest = await client.answer()
            assert got == n
            assert len(rest) > size


async def test_a_client_has_the_buffers_of_the_gateway_then_of_the_broker(tmp_path: Path) -> None:
    def kept(sock: Any) -> list[int]:
        return [sock.getsockopt(socket.SOL_SOCKET, kind) for kind in (socket.SO_RCVBUF, socket.SO_SNDBUF)]

    broker = {"socket_receive_buffer_bytes": "60000", "socket_send_buffer_bytes": "70000"}
    async with paired(tmp_path, GatewayLimits(buffers=SocketBuffers(50_000, 40_000)), **broker) as pair:
        client = await pair.world.client()
        await client.ask(m.MetadataRequest(topics=None), 8)
        (link,) = pair.world.gateway.connections
        assert kept(link.sock) == [100_000, 80_000], "Linux counts its bookkeeping in"
        await pair.handed()
        (adopted,) = pair.adopted.server.connections
        assert kept(adopted.socket) == [120_000, 140_000], "the broker's configs"


async def test_nothing_stays_of_a_connection_that_was_handed_over_and_closed(tmp_path: Path) -> None:
    """Without a garbage collection: a process leaves what was in use during the last one out of the next ones."""

    def held() -> Counter[str]:
        return Counter(type(one).__name__ for one in gc.get_objects() if type(one).__module__ in of_connections)

    of_connections = {Connection.__module__, AdoptedConnection.__module__, Share.__module__, AskingClient.__module__}
    async with paired(tmp_path) as pair:
        for n in range(6):
            if n == 1:
                gc.collect()
                gc.disable()
                before = held()
            (await pair.handed()).writer.close()
            await turns_until(lambda: not len(pair.adopted) and not pair.handed_over)
            await asyncio.sleep(0)
        try:
            assert held() - before == Counter()
        finally:
            gc.enable()

"""The relay with real sockets: bytes pass as they come, order holds, nothing grows without bound."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import Peer, World
from support.waiting import turns_until
from tailrace.net.limits.connections_per_ip import ConnectionsPerIp
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway.gateway import GatewayLimits
from tailrace_gateway.relay.link import Link


def produce(correlation_id: int, payload: bytes, acks: int = 1, version: int = 9) -> bytes:
    topic = m.ProduceRequest.TopicProduceData
    request = m.ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[topic(name="t", partition_data=[topic.PartitionProduceData(index=0, records=payload)])],
    )
    return codec.encode_request(request, version, correlation_id, "test")


def metadata(correlation_id: int) -> bytes:
    return codec.encode_request(m.MetadataRequest(topics=[]), 9, correlation_id, "test")


def unsent_bytes(link: Link) -> int:
    return sum(map(len, link.outbox))


async def test_a_data_request_reaches_the_node_as_the_original_frame_after_a_preamble(world: World) -> None:
    client = await world.client()
    frame = produce(5, b"x" * 1000)
    client.send(frame)
    assert await client.answer() == (5, frame[4:])
    (peer,) = world.peers
    preamble = peer.preambles[0]
    assert preamble.client_port == client.writer.get_extra_info("sockname")[1]
    assert (preamble.advertised_host, preamble.base_port) == ("127.0.0.1", world.listener.base_port)
    assert preamble.node_id == 0


async def test_a_frame_larger_than_every_buffer_passes_in_both_directions(world: World) -> None:
    client = await world.client()
    frame = produce(5, bytes(range(256)) * 12_000)
    client.send(frame)
    assert await client.answer() == (5, frame[4:])


async def test_bytes_are_passed_on_before_their_frame_is_whole(world: World) -> None:
    client = await world.client()
    client.send(produce(1, b"a"))
    await client.answer()
    (peer,) = world.peers
    arrived = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):  # a knock, as the peer's first connections broke
            await reader.readuntil(b"first half")
            arrived.set_result(None)
        writer.close()

    await peer.stop()
    peer.server = await asyncio.start_unix_server(serve, str(peer.path))
    other = await world.client()
    frame = produce(2, b"first half" + b"second half" * 1000)
    other.send(frame[: frame.index(b"second half")])
    await arrived


async def test_many_pipelined_requests_are_answered_in_order(world: World) -> None:
    client = await world.client()
    frames = [produce(i, b"%d" % i * (i % 7) * 100) for i in range(300)]
    client.send(b"".join(frames))
    for i, frame in enumerate(frames):
        assert await client.answer() == (i, frame[4:])


async def test_answers_of_different_routes_leave_in_request_order(world: World) -> None:
    client = await world.client()
    (peer,) = world.peers
    release = asyncio.Event()

    async def late(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await peer.echo(header, frame, writer)

    peer.script = late
    client.send(produce(1, b"a") + metadata(2) + produce(3, b"c") + metadata(4) + metadata(5) + produce(6, b"f"))
    await peer.received.get()
    release.set()
    assert [(await client.answer())[0] for _ in range(6)] == [1, 2, 3, 4, 5, 6]


async def test_requests_with_acks_0_pass_and_nothing_is_answered_for_them(world: World) -> None:
    (peer,) = world.peers

    async def answer_only_acked(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        if header.correlation_id != 1:
            await peer.echo(header, frame, writer)

    peer.script = answer_only_acked
    client = await world.client()
    client.send(produce(1, b"a", acks=0) + produce(2, b"b"))
    assert (await client.answer())[0] == 2
    assert len(peer.frames) == 2


async def test_a_client_that_never_reads_stops_the_node_instead_of_filling_memory(world: World) -> None:
    (peer,) = world.peers
    written = 0
    stalled = asyncio.get_running_loop().create_future()

    async def flood(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        size = 64 * 1024 * 1024
        writer.write(struct.pack(">ii", 4 + size, header.correlation_id))
        block = b"z" * 65_536
        try:
            while written < size:
                writer.write(block)
                written += len(block)
                async with asyncio.timeout(0.5):
                    await writer.drain()
        except TimeoutError:
            stalled.set_result(None)

    peer.script = flood
    client = await world.client(receive_bytes=4096)
    client.transport.pause_reading()
    client.send(codec.encode_request(m.FetchRequest(topics=[]), 12, 1, "test"))
    await stalled
    (connection,) = world.gateway.connections
    assert unsent_bytes(connection) <= 262_144
    assert written < 32 * 1024 * 1024


@pytest.mark.parametrize("ends", [False, True], ids=["stays", "has-ended-its-side"])
async def test_who_does_not_read_is_answered_no_more_until_it_does(world: World, ends: bool) -> None:
    """Answers of the gateway itself: it made and kept one for each of thousands of requests."""
    world.put_topic("t", [0] * 2000)
    client, count = await world.client(receive_bytes=4096), 500
    client.transport.pause_reading()
    frame = codec.encode_request(m.MetadataRequest(topics=None), 9, 7, "test")
    client.send(frame * count)
    if ends:
        client.writer.write_eof()
    (connection,) = world.gateway.connections
    others = await world.client()
    for number in range(200):
        others.send(metadata(number))
        assert (await others.answer())[0] == number
    assert 0 < unsent_bytes(connection) < 200_000, "no more than one answer"
    client.transport.resume_reading()
    assert [(await client.answer())[0] for _ in range(count)] == [7] * count
    if ends:
        assert await client.reader.read() == b""
    else:
        client.send(metadata(8))
        assert (await client.answer())[0] == 8


async def test_a_node_that_does_not_read_stops_its_client_and_no_other(world: World) -> None:
    hung = await Peer(world.directory / "hung.sock").start()
    world.peers.append(hung)
    started = asyncio.Event()

    async def never_again(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    hung.script = never_again
    world.put_broker(1, hung)
    stuck = await world.client(node_id=1)
    stuck.send(produce(1, b"a"))
    await started.wait()
    stuck.send(produce(2, b"b" * 16_000_000))
    other = await world.client()
    frame = produce(3, b"c")
    other.send(frame)
    assert await other.answer() == (3, frame[4:])
    assert all(c.node is None or unsent_bytes(c.node) <= 262_144 for c in world.gateway.connections)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request was sent to the Kafka port"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS handshake was sent to the plaintext Kafka port"),
        (struct.pack(">i", -5) + b"....", "a frame of -5 bytes was announced"),
        (struct.pack(">i", 2_000_000_000), "a frame of 2000000000 bytes was announced"),
        (struct.pack(">ihhih", 10, 9999, 0, 1, -1), "api key 9999 (version 0) is not served here"),
        (struct.pack(">ihhih", 10, 10000, 0, 1, -1), "api key 10000 (version 0) is not served here"),
        (struct.pack(">ihhih", 10, 3, 99, 1, -1), "api key 3 is served in versions 0-13, not in 99"),
        (struct.pack(">ihhih", 10, 0, 2, 1, -1), "api key 0 is served in versions 3-13, not in 2"),
        (struct.pack(">ihhih", 10, 3, 1, 1, 500), "client id has length 500 in a frame of 10 bytes"),
    ],
)
async def test_what_is_not_kafka_is_closed_with_one_line_that_says_why(world: World, sent: bytes, why: str) -> None:
    client = await world.client()
    client.send(sent)
    assert await client.closed()
    lines = [line for line in world.logged() if line["event"] == "connection closed"]
    assert [line["why"] for line in lines] == [why]
    assert lines[0]["client"].startswith("127.0.0.1:")


async def test_a_malformed_body_closes_the_connection(world: World) -> None:
    client = await world.client()
    client.send(struct.pack(">ihhih", 14, 3, 1, 1, -1) + struct.pack(">i", 1_000_000))
    assert await client.closed()


async def test_what_was_asked_before_a_half_close_is_answered(world: World) -> None:
    client = await world.client()
    client.send(produce(1, b"a") + metadata(2))
    client.writer.write_eof()
    assert [(await client.answer())[0] for _ in range(2)] == [1, 2]
    assert await client.closed()


async def test_a_half_sent_frame_ends_with_its_connection(world: World) -> None:
    client = await world.client()
    client.send(produce(1, b"a" * 1000)[:500])
    client.writer.write_eof()
    assert await client.closed()
    assert not world.gateway.connections


async def test_two_thousand_idle_connections_own_no_buffers(world: World) -> None:
    clients = [await world.client() for _ in range(200)]
    for client in clients:
        client.send(metadata(1))
    for client in clients:
        await client.answer()
    held = sum(len(c.tail) + unsent_bytes(c) for c in world.gateway.connections)
    assert held == 0
    assert len(world.gateway.pool.free) <= 2


async def test_connections_above_those_of_an_address_are_closed_at_once(world: World) -> None:
    per_ip = world.listener.throttled.per_ip = ConnectionsPerIp(1)
    first = await world.client()
    first.send(metadata(1))
    await first.answer()
    assert await (await world.client()).closed() and per_ip.refused_count == 1
    first.writer.close()
    await turns_until(lambda: not world.gateway.connections)
    again = await world.client()
    again.send(metadata(2))
    await again.answer()


async def test_connections_above_the_limit_are_closed_at_once(open_world: Callable[..., World]) -> None:
    world = open_world(limits=GatewayLimits(max_connections=2))
    world.put_broker(0, await world.peer("broker-0"))
    for _ in range(2):
        client = await world.client()
        client.send(metadata(1))
        await client.answer()
    third = await world.client()
    assert await third.closed()

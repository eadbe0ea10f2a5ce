"""Too much of something: connections, bytes that nobody reads, records that unpack to hundreds of megabytes."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import cramjam
import pytest

from support.batches import Batch, record, varint
from support.raw import build, framed, request_header
from support.stage import create_topic, filled_topic, metadata_request
from support.targets import Target
from support.waiting import HUNG_S

MIB = 1024 * 1024
ZSTD = 4
IDLE_CONNECTIONS = 2000


def processor_seconds(target: Target) -> float:
    """What all roles have used of the processors: unlike the time that an answer takes it is not others' load."""
    pids = [file.read_text().strip() for file in (target.folder / "run").glob("*-*.pid")]
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(row[11]) + int(row[12]) for row in fields) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.capability("2,000 idle connections")
@pytest.mark.only("tailrace1")
def test_two_thousand_idle_connections_cost_little_and_slow_nobody(target: Target, many_files: None) -> None:
    before = target.memory_bytes()
    with ExitStack() as stack:
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(socket.create_connection((target.host, target.port), timeout=HUNG_S))
        assert target.ask(metadata_request("x"), 5).brokers  # behind all of them: they are taken by now
        used = processor_seconds(target)
        assert target.ask(metadata_request("x"), 5).brokers
        assert processor_seconds(target) - used < 2
        grown = target.memory_bytes() - before
    assert grown < IDLE_CONNECTIONS * 64 * 1024, f"{grown // 1024} KiB for {IDLE_CONNECTIONS} connections"
    assert target.ask(metadata_request("x"), 5).brokers


@pytest.mark.capability("a client that never reads its answers")
@pytest.mark.only("tailrace1")
@pytest.mark.parametrize("api", ["Metadata", "Fetch"])
def test_a_client_that_never_reads_is_stopped_before_it_costs_memory(target: Target, api: str) -> None:
    # Answers of kilobytes to requests of bytes: small ones trickle into the kernel's buffers for minutes.
    topic = filled_topic(target, partitions=200 if api == "Metadata" else 1, records=1000)
    before = target.memory_bytes()
    request, version = metadata_request(topic.name), 5
    if api == "Fetch":
        rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": MIB}]
        topics = [{"topic": topic.name, "partitions": rows}]
        sizes = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MIB}
        request, version = build(1, replica_id=-1, session_epoch=-1, topics=topics, **sizes), 11
    key = type(request).API_KEY
    frame = framed(request_header(key, version, 1, "deaf", flexible=False) + request.encode(version=version))
    with topic.leader() as connection:
        connection.socket.settimeout(2)
        # Left alone the kernel grows it to tens of megabytes.
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        sent = 0
        with pytest.raises((TimeoutError, ConnectionError)):  # stopped reading, or closed
            while sent < 200 * MIB:
                connection.send_bytes(frame * 500)
                sent += len(frame) * 500
        assert target.memory_bytes() - before < 64 * MIB
        assert target.ask(metadata_request("x"), 5).brokers


def bomb(unpacked_bytes: int) -> bytes:
    """One record of zeros, as a zstd batch of a few kilobytes."""
    value = bytes(unpacked_bytes)
    head = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value))
    plain = varint(len(head) + len(value) + 1) + head + value + varint(0)
    return Batch(records=[record(0, b"")], attributes=ZSTD, payload=bytes(cramjam.zstd.compress(plain))).encode()


@pytest.mark.capability("a decompression bomb (200 MB in a few kB of zstd)")
@pytest.mark.only("tailrace1")
def test_a_decompression_bomb_does_not_unpack_in_a_service(target: Target) -> None:
    topic = create_topic(target)
    data = bomb(200 * 1000 * 1000)
    assert len(data) < 30_000
    before = target.memory_bytes()
    produced = topic.produce(data)
    assert produced.error_code in (0, 2, 10, 87)
    rows = [{"partition_index": 0, "timestamp": 1_600_000_000_000, "current_leader_epoch": -1}]
    request = build(2, replica_id=-1, isolation_level=0, topics=[{"name": topic.name, "partitions": rows}])
    used = processor_seconds(target)
    target.ask(request, 6, topic.leaders[0])
    assert processor_seconds(target) - used < 5
    assert target.memory_bytes() - before < 64 * MIB
    assert target.ask(metadata_request("x"), 5).brokers


@pytest.mark.capability("a decompression bomb (200 MB in a few kB of zstd)")
@pytest.mark.only("tailrace1")
def test_a_bomb_on_a_compacted_topic_is_refused_without_unpacking(target: Target) -> None:
    topic = create_topic(target, configs={"cleanup.policy": "compact"})
    before = target.memory_bytes()
    assert topic.produce(bomb(200 * 1000 * 1000)).error_code in (2, 10, 87)
    assert target.memory_bytes() - before < 64 * MIB

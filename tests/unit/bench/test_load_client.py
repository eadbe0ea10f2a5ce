"""The load client against a tiny server of our own: what it sends is valid, and its figures add up."""

import asyncio
import functools
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from bench import client
from bench.cells import batch_options
from support.pieces import whole
from support.plugin import leave_out
from tailrace.records.batch import read_header, validate_produced
from tailrace.records.record import Record, build, iterate
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import encode_response
from tailrace.wire.header import parse_request_header
from tailrace.wire.hot.fetch import PartitionData, decode_fetch, encode_fetch_answer
from tailrace.wire.hot.produce import decode_produce
from tailrace.wire.messages import MetadataResponse, ProduceResponse

TOPIC = "numbers"
TOPIC_ID = UUID(int=7)
PARTITIONS = 2


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    if problem := client.missing():
        leave_out(problem)


class FakeServer:
    """Answers Metadata, Produce and Fetch; keeps the batches that were produced, and serves two batches of three."""

    def __init__(self, error_code: int = 0) -> None:
        self.error_code = error_code
        self.batches: list[tuple[int, bytes]] = []
        self.keys: set[bytes] = set()
        self.fetch_offsets: dict[int, list[int]] = {n: [] for n in range(PARTITIONS)}
        records = [Record(value=b"x" * 10)] * 3
        self.stored = {base: bytes(build(records, base_offset=base)) for base in (0, 3)}
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                writer.write(self.answer(memoryview(await reader.readexactly(size))))
        except asyncio.IncompleteReadError:
            writer.close()

    def answer(self, frame: memoryview) -> bytes:
        header = parse_request_header(frame)
        body = frame[header.body_offset :]
        if header.api_key == ApiKey.METADATA:
            return encode_response(self.metadata(), header.api_version, header.correlation_id)
        if header.api_key == ApiKey.PRODUCE:
            return encode_response(self.produce(header.api_version, body), header.api_version, header.correlation_id)
        return self.fetch(header.api_version, header.correlation_id, body)

    def metadata(self) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        partitions = [
            topic.MetadataResponsePartition(partition_index=n, leader_id=3, replica_nodes=[3], isr_nodes=[3])
            for n in range(PARTITIONS)
        ]
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=3, host="127.0.0.1", port=self.port, rack="r")],
            cluster_id="fake",
            topics=[topic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)],
        )

    def produce(self, version: int, body: memoryview) -> Any:
        (topic,) = decode_produce(version, body).topics
        (row,) = topic.partitions
        assert row.records is not None
        self.keys.add(topic.key)
        self.batches.append((row.partition, bytes(row.records)))
        answer = ProduceResponse.TopicProduceResponse
        partition = answer.PartitionProduceResponse(index=row.partition, error_code=self.error_code, base_offset=5)
        named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC}
        return ProduceResponse(responses=[answer(**named, partition_responses=[partition])])

    def fetch(self, version: int, correlation_id: int, body: memoryview) -> bytes:
        ((key, (row,)),) = decode_fetch(version, body).topics
        self.keys.add(key)
        self.fetch_offsets[row.partition].append(row.fetch_offset)
        data = PartitionData(row.partition, self.error_code, 6, 6, 0, self.stored[row.fetch_offset])
        return whole(encode_fetch_answer(version, correlation_id, 0, 0, [(key, [data])]))


@asynccontextmanager
async def serving(fake: FakeServer) -> AsyncIterator[str]:
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    async with server:
        fake.port = server.sockets[0].getsockname()[1]
        yield f"127.0.0.1:{fake.port}"


async def load(fake: FakeServer, **options: object) -> client.Result:
    flags = {name.replace("_", "-"): value for name, value in options.items()}
    async with serving(fake) as address:
        return await asyncio.to_thread(client.load, address, TOPIC, {"connections": 2, "warm-up": 0, **flags})


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
async def test_produced_batches_are_valid_and_addressed_as_the_version_wants(version: int) -> None:
    fake = FakeServer()
    await load(fake, requests=6, produce_version=version, in_flight=2, **batch_options(5000))
    assert len(fake.batches) >= 6
    assert fake.keys == {TOPIC_ID.bytes if version >= 13 else TOPIC.encode()}
    assert {partition for partition, _ in fake.batches} == {0, 1}
    for _, batch in fake.batches:
        assert validate_produced(batch).record_count == 4
        assert [len(record.value or b"") for record in iterate(batch)] == [1024] * 4


async def test_a_batch_of_no_given_size_holds_one_record() -> None:
    fake = FakeServer()
    await load(fake, requests=1, **batch_options(100))
    _, batch = fake.batches[0]
    assert [len(record.value or b"") for record in iterate(batch)] == [100]


async def test_a_batch_larger_than_the_sockets_buffers_arrives_whole() -> None:
    fake = FakeServer()
    await load(fake, requests=3, in_flight=3, **batch_options(900_000))
    assert all(890_000 < validate_produced(batch).size_bytes <= 900_000 for _, batch in fake.batches)


async def test_produce_figures_add_up() -> None:
    fake = FakeServer()
    result = await load(fake, requests=200, in_flight=5, **batch_options(3000))
    header = read_header(fake.batches[0][1])
    assert result["requests"] >= 200
    assert result["bytes"] == result["requests"] * header.size_bytes
    assert result["records"] == result["requests"] * header.record_count
    assert result["requests_per_second"] == pytest.approx(result["requests"] / result["seconds"], rel=0.05)
    assert 0 < result["p50_us"] <= result["p99_us"] <= result["p999_us"] <= result["max_us"] * 1.02


@pytest.mark.parametrize("version", [12, 13, 15, 17])
async def test_a_fetch_reads_on_and_begins_again_at_the_end(version: int) -> None:
    fake = FakeServer()
    result = await load(fake, mode="fetch", requests=10, fetch_version=version)
    for offsets in fake.fetch_offsets.values():
        assert offsets == [0, 3] * (len(offsets) // 2) + [0] * (len(offsets) % 2)
    assert fake.keys == {TOPIC_ID.bytes if version >= 13 else TOPIC.encode()}
    assert result["records"] == 3 * result["requests"]
    assert result["bytes"] == len(fake.stored[0]) * result["requests"]


async def test_a_rate_is_kept() -> None:
    result = await load(FakeServer(), requests=50, rate=500, in_flight=50)
    assert result["requests"] == 50
    assert result["seconds"] >= 49 / 500  # the fiftieth request is not due earlier


@contextmanager
def failing(words: str) -> Iterator[None]:
    with pytest.raises(client.LoadFailed, match=words):
        yield


async def test_an_error_code_ends_the_run_with_a_sentence() -> None:
    with failing("Produce to numbers-0: error 6"):
        await load(FakeServer(error_code=6), requests=1, connections=1)
    with failing("Fetch of numbers-0 at 0: error 6"):
        await load(FakeServer(error_code=6), mode="fetch", requests=1, connections=1)


async def test_a_lost_connection_ends_the_run_with_a_sentence() -> None:
    fake = FakeServer()
    fake.produce = functools.partial(_raise, asyncio.IncompleteReadError(b"", 1))  # type: ignore[method-assign]
    with failing("connection lost: closed by the server"):
        await load(fake, requests=1)


def _raise(error: Exception, *_: object) -> None:
    raise error


def test_the_client_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.build()
    written = first.stat().st_mtime_ns
    assert client.build() == first
    assert first.stat().st_mtime_ns == written
    monkeypatch.setattr(client, "CACHE", tmp_path)
    assert client.build().parent == tmp_path

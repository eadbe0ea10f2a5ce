"""compression.type on the wire: how a topic's batches lie in its log, whatever the producer compressed them with."""

import time
from dataclasses import replace

import pytest

from support.batches import HEADER, Batch, record
from support.raw import build
from support.records_field import iterate_all
from support.stage import Topic, create_topic
from support.targets import Target
from tailrace.records.compression import Codec, compress

pytestmark = pytest.mark.also_plain

CASES = (
    ("producer", None),
    ("uncompressed", Codec.NONE),
    ("gzip", Codec.GZIP),
    ("lz4", Codec.LZ4),
    ("zstd", Codec.ZSTD),
)
VALUES = [b"value-%d" % number for number in range(50)]
MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD = 10, 32, 87


def squeezed(codec: Codec, values: list[bytes]) -> bytes:
    payload = compress(codec, b"".join(record(number, value) for number, value in enumerate(values)))
    count = len(values)
    return Batch(payload=payload, attributes=codec, record_count=count, last_offset_delta=count - 1).encode()


def stored(topic: Topic, version: int = 12) -> bytes:
    rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    asked = [{"topic": topic.name, "partitions": rows}]
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
    with topic.leader() as connection:
        answer = connection.ask(build(1, replica_id=-1, topics=asked, forgotten_topics_data=[], **fields), version)
    assert answer.responses[0].partitions[0].error_code == 0
    return bytes(answer.responses[0].partitions[0].records)


@pytest.mark.capability("compression.type: batches are stored as the topic says (KIP-390)")
@pytest.mark.parametrize("sent", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
@pytest.mark.parametrize(("asked", "codec"), CASES)
def test_a_batch_is_stored_as_the_topic_says(target: Target, asked: str, codec: Codec | None, sent: Codec) -> None:
    topic = create_topic(target, configs={"compression.type": asked})
    answer = topic.produce(squeezed(sent, VALUES))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    data = stored(topic)
    assert HEADER.unpack_from(data)[5] & 7 == (sent if codec is None else codec)
    assert [row.value for row in iterate_all(data)] == VALUES


@pytest.mark.capability("compression.type: batches are stored as the topic says (KIP-390)")
@pytest.mark.parametrize("version", [4, 9, 10])
@pytest.mark.parametrize(("asked", "sent"), [("zstd", Codec.NONE), ("zstd", Codec.ZSTD), ("producer", Codec.ZSTD)])
def test_zstd_is_served_in_every_version(target: Target, asked: str, sent: Codec, version: int) -> None:
    """Kafka had UNSUPPORTED_COMPRESSION_TYPE for topics of compression.type=zstd below v10; 4.x converts nothing."""
    topic = create_topic(target, configs={"compression.type": asked})
    assert topic.produce(squeezed(sent, VALUES)).base_offset == 0
    data = stored(topic, version)
    assert HEADER.unpack_from(data)[5] & 7 == Codec.ZSTD
    assert [row.value for row in iterate_all(data)] == VALUES


@pytest.mark.capability("compression.type: batches are stored as the topic says (KIP-390)")
def test_a_batch_that_becomes_too_large_is_refused(target: Target) -> None:
    configs = {"compression.type": "uncompressed", "max.message.bytes": "1000"}
    topic = create_topic(target, configs=configs)
    assert topic.produce(squeezed(Codec.GZIP, [bytes(5000)])).error_code == MESSAGE_TOO_LARGE
    assert topic.produce(squeezed(Codec.GZIP, [bytes(500)])).base_offset == 0


@pytest.mark.capability("compression.type: batches are stored as the topic says (KIP-390)")
@pytest.mark.parametrize(("asked", "sent"), [("gzip", Codec.NONE), ("uncompressed", Codec.ZSTD)])
@pytest.mark.parametrize("strange", ["nonsense", "too few", "too many", "bytes behind"])
def test_records_that_do_not_fit_their_batch_are_not_compressed_anew(
    target: Target, asked: str, sent: Codec, strange: str
) -> None:
    two = record(0, b"v") + record(1, b"w")
    payload = {"nonsense": b"\7" * 30, "too few": record(0, b"v"), "too many": two + record(2, b"x")}
    data = compress(sent, payload.get(strange, two + b"xyz"))
    batch = Batch(payload=data, attributes=sent, record_count=2, last_offset_delta=1).encode()
    topic = create_topic(target, configs={"compression.type": asked})
    assert topic.produce(batch).error_code == INVALID_RECORD
    assert topic.produce(squeezed(sent, VALUES)).base_offset == 0


@pytest.mark.capability("message.timestamp.type, message.timestamp.after.max.ms")
def test_the_records_say_the_largest_timestamp_of_a_batch_that_is_compressed_anew(target: Target) -> None:
    topic = create_topic(target, configs={"compression.type": "gzip"})
    batch = Batch(max_timestamp=int(time.time() * 1000) + 10 * 3600 * 1000)
    assert topic.produce(batch.encode()).error_code == 0
    assert HEADER.unpack_from(stored(topic))[8] == batch.base_timestamp
    future = replace(batch, base_timestamp=batch.max_timestamp or 0, max_timestamp=batch.base_timestamp)
    assert topic.produce(future.encode()).error_code == INVALID_TIMESTAMP

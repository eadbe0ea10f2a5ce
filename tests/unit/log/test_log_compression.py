"""compression.type of a topic: what a producer compressed otherwise is stored as the topic says, and is the same."""

import random

import cramjam
import pytest

from support.batches import Batch, record
from support.logs import NOW, append, open_log, records_of, some_batch, with_settings
from tailrace.errors import ApiError, ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.records.batch import HEADER_SIZE, pack, read_header, split
from tailrace.records.compression import Codec, compress
from tailrace.records.record import Record, build

NAMES = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


def stored(log: Log) -> bytes:
    return bytes(log.read(0, 1_000_000).read())


@pytest.mark.parametrize("asked", NAMES)
@pytest.mark.parametrize("sent", list(Codec))
def test_a_batch_is_stored_under_the_topics_compression(asked: str, sent: Codec) -> None:
    log = open_log(MemoryFilesystem(), with_settings(compression_type=asked, segment_bytes=10_000))
    rows = [Record(timestamp=NOW + n, key=b"k%d" % n, value=b"v" * n, headers=(("h", b"x"),)) for n in range(20)]
    first = build(rows, compression=sent, producer_id=7, producer_epoch=1, base_sequence=0)
    again = bytearray(first)
    answers = log.append([first, again], 3, NOW)
    assert [(answer.error_code, answer.base_offset, answer.last_offset) for answer in answers] == [(0, 0, 19)] * 2
    assert [record._replace(offset=0) for record in records_of(log, max_bytes=10_000)] == rows
    (batch,) = split(stored(log))
    header = read_header(batch)
    assert (header.codec, header.partition_leader_epoch, header.max_timestamp) == (NAMES[asked], 3, NOW + 19)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)


def test_producer_keeps_what_was_sent_to_the_byte() -> None:
    log = open_log(MemoryFilesystem(), with_settings(segment_bytes=10_000))
    batch = some_batch(b"v" * 500, codec=Codec.GZIP)
    log.append([batch], 0, NOW)
    assert stored(log) == batch


def test_log_append_time_is_stamped_on_what_was_compressed_anew() -> None:
    settings = with_settings(compression_type="zstd", message_timestamp_type="LogAppendTime")
    log = open_log(MemoryFilesystem(), settings)
    append(log, b"a", b"b", timestamp=5)
    assert [(record.timestamp, record.value) for record in records_of(log)] == [(NOW, b"a"), (NOW, b"b")]


def test_what_a_batch_becomes_must_fit_the_topic_as_well() -> None:
    log = open_log(MemoryFilesystem(), with_settings(compression_type="uncompressed", max_message_bytes=500))
    squeezed = some_batch(b"v" * 600, codec=Codec.GZIP)
    assert len(squeezed) < 500
    (answer,) = log.append([squeezed], 0, NOW)
    assert (answer.error_code, log.log_end_offset, log.size_bytes) == (ErrorCode.MESSAGE_TOO_LARGE, 0, 0)


@pytest.mark.parametrize("settings", [{"compression_type": "uncompressed"}, {"cleanup_policy": "compact"}], ids=str)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_that_cannot_be_read_are_refused_and_their_neighbours_taken(
    codec: Codec, settings: dict[str, str]
) -> None:
    """For good: a producer that is told CORRUPT_MESSAGE sends the same again, until its time is over."""
    log = open_log(MemoryFilesystem(), with_settings(**settings))
    nonsense = build([Record(timestamp=NOW, key=b"k", value=b"v" * 100)], compression=codec)
    nonsense = pack(read_header(nonsense), b"\7" * (len(nonsense) - HEADER_SIZE))
    good = build([Record(timestamp=NOW, key=b"k", value=b"good")])
    answers = log.append([nonsense, good], 0, NOW)
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_RECORD, 0]
    assert [record.value for record in records_of(log)] == [b"good"]


TWO = [record(0, b"v", b"k"), record(1, b"w", b"l")]
STRANGE = {
    "nonsense": [b"\7" * 30, b""],
    "a record too few": [*TWO, record(2, b"x")],
    "a record too many": TWO[:1],
    "bytes behind": [TWO[0], TWO[1] + b"xyz"],
    "offsets with a gap": [TWO[0], record(2, b"w")],
    "offsets backwards": TWO[::-1],
}


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("examined", [True, False])
@pytest.mark.parametrize("sent", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_nonsense_gets_no_crc_of_ours_where_a_batch_is_compressed_anew(
    strange: str, examined: bool, sent: Codec
) -> None:
    """As Kafka, but for offsets that do not count up, which it counts anew."""
    log = open_log(MemoryFilesystem(), with_settings(compression_type="zstd"))
    payload = compress(sent, b"".join(STRANGE[strange]))
    data = Batch(records=TWO, attributes=sent, payload=payload, base_timestamp=NOW).encode()
    if examined:
        with pytest.raises(ApiError) as refused:
            log.limits.examine(data, NOW)
        assert refused.value.code == ErrorCode.INVALID_RECORD
    else:
        (answer,) = log.append([bytearray(data)], 0, NOW)
        assert (answer.error_code, log.log_end_offset) == (ErrorCode.INVALID_RECORD, 0)


@pytest.mark.parametrize("false", [-1, NOW - 1000, NOW + 10**9], ids=["none", "past", "future"])
@pytest.mark.parametrize("log_append_time", [False, True])
def test_the_records_say_the_largest_timestamp_where_a_batch_is_compressed_anew(
    false: int, log_append_time: bool
) -> None:
    settings = {"message_timestamp_type": "LogAppendTime"} if log_append_time else {}
    log = open_log(MemoryFilesystem(), with_settings(compression_type="zstd", **settings))
    (answer,) = log.append([bytearray(Batch(records=TWO, max_timestamp=false, base_timestamp=NOW).encode())], 0, NOW)
    assert answer.error_code == 0
    (batch,) = split(stored(log))
    assert read_header(batch).max_timestamp == NOW


def test_records_of_the_future_are_blamed_where_a_batch_is_compressed_anew() -> None:
    log = open_log(MemoryFilesystem(), with_settings(compression_type="zstd", message_timestamp_after_max_ms=5000))
    records = [TWO[0], record(1, b"w", timestamp_delta=6000)]
    (answer,) = log.append([bytearray(Batch(records=records, base_timestamp=NOW).encode())], 0, NOW)
    assert (answer.error_code, answer.record_errors) == (ErrorCode.INVALID_TIMESTAMP, (1,))


def lz4(data: bytes, **how: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(**how)
    compressor.compress(data)
    return bytes(compressor.finish())


@pytest.mark.parametrize("size", [1, 1000, 300_000])
def test_a_compacted_topic_takes_no_lz4_that_java_cannot_read(size: int) -> None:
    """Kafka 4.3.1 refuses blocks that depend on each other, and records in a second frame."""
    log = open_log(MemoryFilesystem(), LogConfig(cleanup_policy="compact", message_timestamp_after_max_ms=2**62))
    row = Record(timestamp=NOW, key=b"k", value=random.Random(1).randbytes(size))
    header = read_header(build([row], compression=Codec.LZ4))
    plain = bytes(build([row])[HEADER_SIZE:])
    taken = (
        lz4(plain, block_linked=False),
        lz4(plain, block_linked=False, content_checksum=True),
        compress(Codec.LZ4, plain),
    )
    refused = (
        lz4(plain, block_linked=True),
        lz4(plain[:3], block_linked=False) + lz4(plain[3:], block_linked=False),
        lz4(plain, block_linked=False) + lz4(b"", block_linked=False),
    )
    for how, code in ((taken, 0), (refused, ErrorCode.INVALID_RECORD)):
        answers = log.append([pack(header, data) for data in how], 0, NOW)
        assert [answer.error_code for answer in answers] == [code] * len(how)


def test_a_coordinators_batches_stay_as_they_are() -> None:
    log = open_log(MemoryFilesystem(), with_settings(compression_type="zstd"))
    batch = some_batch(b"x", control=True)
    log.append([batch], 0, NOW, from_client=False)
    assert read_header(stored(log)).codec == Codec.NONE


@pytest.mark.parametrize(
    ("codec", "setting", "low", "high"),
    [
        ("gzip", "compression_gzip_level", 1, 9),
        ("lz4", "compression_lz4_level", 1, 12),
        ("zstd", "compression_zstd_level", -100, 19),
    ],
)
def test_a_level_is_the_codecs_own(codec: str, setting: str, low: int, high: int) -> None:
    values = [b"some text of which %d parts repeat %d" % (n % 7, n * n) for n in range(400)]
    sizes = []
    for level in (low, high):
        settings = with_settings(compression_type=codec, segment_bytes=10**6, **{setting: level})
        log = open_log(MemoryFilesystem(), settings)
        append(log, *values)
        assert [record.value for record in records_of(log, max_bytes=10**6)] == values
        sizes.append(log.size_bytes)
    assert sizes[0] > sizes[1]

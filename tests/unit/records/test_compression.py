"""Records survive every codec, match an independent client, and a bomb is refused without being unpacked."""

import resource

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from support.batches import Batch
from tailrace.errors import ApiError
from tailrace.records.compression import Codec, TooManyBytes, compress, decompress
from tailrace.records.record import Record, build, iterate

SOME = [
    Record(timestamp=1000, key=b"k", value=b"v" * 300, headers=(("trace", b"1"), ("none", None))),
    Record(timestamp=900, key=None, value=b""),
    Record(timestamp=5000, key=b"", value=None),
]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_from_every_codec(codec: Codec) -> None:
    data = build(SOME, compression=codec, base_offset=40)
    expected = [record._replace(offset=40 + index) for index, record in enumerate(SOME)]
    assert list(iterate(data)) == expected


@pytest.mark.parametrize("codec", list(Codec)[:2])
def test_kafka_python_reads_what_we_build(codec: Codec) -> None:
    theirs = DefaultRecordBatch(bytes(build(SOME, compression=codec, base_offset=40)))
    assert theirs.validate_crc()
    got = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs]
    assert got == [(40 + i, r.timestamp, r.key, r.value, list(r.headers)) for i, r in enumerate(SOME)]


def test_we_read_what_kafka_python_builds() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 65536)
    for index, record in enumerate(SOME):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    assert list(iterate(builder.build())) == [record._replace(offset=i) for i, record in enumerate(SOME)]


def test_raw_snappy_is_read_as_well_as_javas_blocks() -> None:
    data = b"abc" * 50_000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    assert compress(Codec.SNAPPY, data).startswith(b"\x82SNAPPY\x00")
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, data)) == data


def test_lz4_frames_have_independent_blocks_which_java_requires() -> None:
    assert compress(Codec.LZ4, b"x" * 200_000)[4] & 0x20


def test_streams_of_java_snappy_that_follow_each_other_are_one_as_in_java() -> None:
    first, second, empty = (compress(Codec.SNAPPY, data) for data in (bytes(40_000), b"second", b""))
    assert len(empty) == 16
    together = (first + second, empty + first + second, first + empty + empty + second, first + second + empty)
    assert all(decompress(Codec.SNAPPY, data) == bytes(40_000) + b"second" for data in together)
    with pytest.raises(TooManyBytes):
        decompress(Codec.SNAPPY, first + second, 40_001)


@pytest.mark.parametrize("start", [b"", compress(Codec.SNAPPY, b"sound")])
def test_what_java_does_not_take_for_a_stream_of_snappy_is_refused(start: bytes) -> None:
    stream = compress(Codec.SNAPPY, b"more")
    for bad in (stream[:7], stream[:15], stream[:12] + bytes(4) + stream[16:], b"\x82SNAPPX" + stream[7:]):
        with pytest.raises(ApiError):
            decompress(Codec.SNAPPY, start + bad)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_bound_is_kept_exactly(codec: Codec) -> None:
    packed = compress(codec, bytes(100_000))
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(ApiError, match="more than 99999 bytes"):
        decompress(codec, packed, 99_999)


def test_a_bomb_of_200_mb_in_6_kb_is_refused_without_allocating_it() -> None:
    compressor = cramjam.zstd.Compressor(3)
    for _ in range(200):
        compressor.compress(bytes(1024 * 1024))
    bomb = Batch(attributes=Codec.ZSTD, payload=bytes(compressor.finish())).encode()
    assert len(bomb) < 8192
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ApiError, match="decompress to more"):
        next(iterate(bomb, max_bytes=1024 * 1024))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024  # kB


def test_a_snappy_block_that_claims_gigabytes_is_refused() -> None:
    with pytest.raises(ApiError):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), 2**40)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@given(data=st.binary(max_size=200))
def test_damaged_payloads_are_refused_not_crashed_on(codec: Codec, data: bytes) -> None:
    try:
        decompress(codec, data, 1024 * 1024)
    except ApiError as refused:
        assert refused.code.name == "CORRUPT_MESSAGE"


@given(payload=st.binary(max_size=60), count=st.sampled_from([1, 2, 2**31 - 1, -1]))
def test_nonsense_records_are_refused_not_crashed_on(payload: bytes, count: int) -> None:
    data = Batch(payload=payload, record_count=count).encode()
    try:
        assert len(list(iterate(data))) <= len(payload)
    except ApiError as refused:
        assert refused.code.name == "CORRUPT_MESSAGE"

"""Batch v2: what is accepted, what is refused and with which code, and what stamping may change."""

import struct

import pytest

from support.batches import CONTROL, Batch, batch, record
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.batch import (
    RECORD_BYTES_MIN,
    read_header,
    split,
    stamp,
    stamp_log_append_time,
    validate,
    validate_produced,
    whole_batches,
    without_records,
)
from tailrace.records.compression import Codec, compress
from tailrace.records.record import Record, build, iterate


def refusal(data: bytes) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        validate_produced(data)
    return refused.value.code


def test_a_sound_batch_is_accepted_and_its_header_read() -> None:
    header = validate_produced(batch(b"a", b"b", b"c"))
    assert (header.record_count, header.last_offset, header.next_offset, header.magic) == (3, 2, 3, 2)
    assert header.size_bytes == len(batch(b"a", b"b", b"c"))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"x")[:60], ErrorCode.INVALID_RECORD),
        (batch(b"x")[:-1], ErrorCode.INVALID_RECORD),
        (Batch(length=48).encode(), ErrorCode.CORRUPT_MESSAGE),
        (Batch(length=-1).encode(), ErrorCode.CORRUPT_MESSAGE),
        (Batch(length=2**31 - 1).encode(), ErrorCode.INVALID_RECORD),
        (Batch(crc=1).encode(), ErrorCode.CORRUPT_MESSAGE),
        (Batch(magic=1).encode(), ErrorCode.INVALID_RECORD),
        (Batch(magic=0).encode(), ErrorCode.INVALID_RECORD),
        (Batch(magic=3).encode(), ErrorCode.CORRUPT_MESSAGE),
        (Batch(record_count=0).encode(), ErrorCode.INVALID_RECORD),
        (Batch(record_count=-5).encode(), ErrorCode.INVALID_RECORD),
        (Batch(record_count=2).encode(), ErrorCode.INVALID_RECORD),
        (Batch(last_offset_delta=2**31 - 1).encode(), ErrorCode.INVALID_RECORD),
        (Batch(attributes=CONTROL).encode(), ErrorCode.INVALID_RECORD),
        (Batch(attributes=5).encode(), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(b"x") + batch(b"y"), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_bad_produce_is_refused_with_kafkas_code(data: bytes, code: ErrorCode) -> None:
    assert refusal(data) == code


LONGEST = 2**31 - 1


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(("payload_bytes", "claimed"), [(7, LONGEST), (100, 1 << 24), (1 << 20, LONGEST)])
def test_a_batch_that_cannot_hold_what_it_claims_is_refused(codec: Codec, payload_bytes: int, claimed: int) -> None:
    data = Batch(
        payload=bytes(payload_bytes), attributes=codec, record_count=claimed, last_offset_delta=claimed - 1
    ).encode()
    assert refusal(data) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec)
def test_records_as_small_and_as_alike_as_can_be_are_believed(codec: Codec) -> None:
    assert len(record(0, None)) == RECORD_BYTES_MIN
    records = b"".join(record(n, None) for n in range(20_000))
    payload = records if codec is Codec.NONE else compress(codec, records)
    data = Batch(payload=payload, attributes=codec, record_count=20_000, last_offset_delta=19_999).encode()
    assert validate_produced(data).record_count == 20_000


def test_every_flipped_bit_behind_the_crc_is_found() -> None:
    valid = batch(b"some value")
    for position in range(17, len(valid)):
        damaged = bytearray(valid)
        damaged[position] ^= 0x10
        with pytest.raises(ApiError):
            validate(damaged)


def test_stamping_leaves_the_crc_valid() -> None:
    data = bytearray(batch(b"a", b"b"))
    stamp(data, 0, 5_000_000_000, 17)
    header = validate(data)
    assert (header.base_offset, header.partition_leader_epoch) == (5_000_000_000, 17)
    assert [record.offset for record in iterate(data)] == [5_000_000_000, 5_000_000_001]


def test_log_append_time_replaces_the_time_of_every_record() -> None:
    data = build([Record(timestamp=10, value=b"a"), Record(timestamp=99, value=b"b")])
    stamp_log_append_time(data, 0, 5000)
    header = validate(data)
    assert (header.is_log_append_time, header.max_timestamp) == (True, 5000)
    assert [record.timestamp for record in iterate(data)] == [5000, 5000]


def test_a_records_field_is_split_into_its_batches() -> None:
    first, second = batch(b"a"), batch(b"b", b"c")
    assert [bytes(part) for part in split(first + second)] == [first, second]
    assert split(b"") == []


@pytest.mark.parametrize("tail", [b"\0", batch(b"x")[:-1], struct.pack(">qi", 0, -100) + bytes(60)])
def test_a_records_field_whose_lengths_do_not_add_up_is_refused(tail: bytes) -> None:
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        split(batch(b"a") + tail)


def test_a_batch_without_records_keeps_its_offsets_and_its_producer() -> None:
    full = build([Record(timestamp=3)] * 4, base_offset=70, producer_id=9, producer_epoch=1, base_sequence=12)
    empty = validate(without_records(read_header(full)))
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (70, 73, 0)
    assert (empty.producer_id, empty.base_sequence, list(iterate(without_records(empty)))) == (9, 12, [])


def test_a_last_batch_that_is_cut_is_left_out() -> None:
    first, second = batch(b"a"), batch(b"b")
    for cut in (1, len(second) - 1, len(second) - 61):
        assert [bytes(part) for part in whole_batches(first + second[:-cut])] == [first]


def test_a_batch_shorter_than_a_header_is_corrupt_and_not_read_forever() -> None:
    for length in (-12, -1, 0, 48):
        field = bytearray(batch(b"a"))
        struct.pack_into(">i", field, 8, length)
        with pytest.raises(ApiError) as refused:
            list(whole_batches(field))
        assert refused.value.code == ErrorCode.CORRUPT_MESSAGE

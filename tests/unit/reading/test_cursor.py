"""A reader's position in a partition: which records of a Fetch answer it takes, in every compression type."""

from __future__ import annotations

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace.reading.cursor import Cursor
from tailrace.records.compression import Codec
from tailrace.records.markers import marker_record
from tailrace.records.record import Record, build


def batch(base: int, *values: bytes, codec: Codec = Codec.NONE, producer: int = -1) -> bytes:
    records = [Record(timestamp=1, value=value) for value in values]
    return bytes(
        build(
            records,
            base_offset=base,
            compression=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
            transactional=producer >= 0,
        )
    )


def marker(base: int, producer: int, *, committed: bool) -> bytes:
    key, value = marker_record(committed, 0)
    record = Record(timestamp=1, key=key, value=value)
    return bytes(
        build([record], base_offset=base, producer_id=producer, producer_epoch=0, transactional=True, control=True)
    )


def taken(cursor: Cursor, records: bytes, aborted: list[tuple[int, int]] | None = None) -> list[bytes | None]:
    return [record.value for record in cursor.take(records, aborted or ())]


@pytest.mark.parametrize("codec", Codec)
def test_records_of_every_compression_type_are_read(codec: Codec) -> None:
    cursor = Cursor(0, 0)
    assert taken(cursor, batch(0, b"a", b"b", codec=codec)) == [b"a", b"b"]
    assert cursor.offset == 2


def test_records_before_the_position_are_left_out_although_their_batch_has_them() -> None:
    cursor = Cursor(0, 2)
    assert taken(cursor, batch(0, b"a", b"b", b"c") + batch(3, b"d")) == [b"c", b"d"]


def test_a_batch_that_is_cut_at_the_end_is_for_the_next_fetch() -> None:
    cursor, whole = Cursor(0, 0), batch(0, b"a") + batch(1, b"b")
    assert taken(cursor, whole[:-1]) == [b"a"]
    assert cursor.offset == 1
    assert taken(cursor, whole[:20]) == []


def test_the_position_follows_the_records_that_were_taken_and_no_others() -> None:
    cursor = Cursor(0, 0)
    first = next(cursor.take(batch(0, b"a", b"b")))
    assert (first.value, cursor.offset) == (b"a", 1)


def test_nothing_behind_the_end_is_taken() -> None:
    cursor = Cursor(0, 0, end=2)
    assert taken(cursor, batch(0, b"a", b"b", b"c")) == [b"a", b"b"]
    assert cursor.done and cursor.offset == 2


def test_a_reader_reaches_its_end_over_offsets_that_compaction_took_away() -> None:
    cursor = Cursor(0, 0, end=3)
    whole = batch(0, b"a") + marker(1, 7, committed=True) + marker(2, 8, committed=True)
    assert taken(cursor, whole) == [b"a"]
    assert cursor.done


def test_markers_are_no_records_and_aborted_transactions_are_left_out_until_their_marker() -> None:
    whole = (
        batch(0, b"plain")
        + batch(1, b"lost", producer=7)
        + batch(2, b"kept", producer=8)
        + marker(3, 7, committed=False)
        + batch(4, b"later", producer=7)
        + marker(5, 7, committed=True)
        + marker(6, 8, committed=True)
    )
    assert taken(Cursor(0, 0), whole, [(7, 1)]) == [b"plain", b"kept", b"later"]
    assert taken(Cursor(0, 0), whole) == [b"plain", b"lost", b"kept", b"later"]
    cursor = Cursor(0, 0)
    assert taken(cursor, whole, [(7, 1)])
    assert cursor.offset == 7


def test_a_damaged_batch_is_refused() -> None:
    damaged = bytearray(batch(0, b"abc"))
    damaged[-1] ^= 1
    with pytest.raises(ApiError) as refused:
        taken(Cursor(0, 0), bytes(damaged))
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE

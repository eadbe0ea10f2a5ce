"""What a commit holds of the records that wait for it."""

from __future__ import annotations

from tailrace.records.record import Record
from tailrace.tables.batch import MOST_BYTES, MOST_RECORDS, Batch
from tailrace.tables.fields.json_fields import decode


def test_a_plan_has_rows_dead_letters_and_the_offsets_behind_them() -> None:
    batch = Batch()
    for partition, offset, value in ((0, 5, b'{"a": 1}'), (1, 2, b"no"), (0, 9, b'{"a": "x"}'), (1, 3, b'{"b": 1}')):
        batch.add(partition, Record(offset=offset, value=value))
    plan = batch.plan({}, decode)
    assert [(row.partition, row.record.offset, row.fields) for row in plan.rows] == [(0, 5, {"a": 1}), (1, 3, {"b": 1})]
    assert [(one.partition, one.record.offset) for one in plan.letters] == [(1, 2), (0, 9)]
    assert plan.letters[1].reason == "column a is long, the field is string"
    assert (plan.types, plan.offsets, plan.dead_from) == ({"a": "long", "b": "long"}, {0: 10, 1: 4}, {1: 2, 0: 9})


def test_a_batch_is_full_by_records_or_by_bytes() -> None:
    batch = Batch()
    for offset in range(MOST_RECORDS):
        assert not batch.is_full
        batch.add(0, Record(offset=offset))
    assert batch.is_full
    large = Batch()
    large.add(0, Record(value=bytes(MOST_BYTES)))
    assert large.is_full


def test_a_reason_is_text_whatever_the_name_of_the_field() -> None:
    """Delta has no text that is not UTF-8; the worker would fail at this record for ever."""
    batch = Batch()
    batch.add(0, Record(value=b'{"\\ud800": 99999999999999999999}'))
    assert batch.plan({}, decode).letters[0].reason == "field ?: an integer of more than 64 bits"

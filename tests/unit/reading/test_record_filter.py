"""Filters: what they see of a record, what is refused before any record, and what they may cost."""

from __future__ import annotations

import pytest

from tailrace.reading.decoders.plain import Encoding
from tailrace.reading.record_filter import OF_A_COMMAND, OF_A_SERVICE, RecordFilter
from tailrace.records.record import Record

RECORD = Record(
    5,
    1706933106789,  # 2024-02-03T04:05:06.789Z
    b"customer-7",
    b'{"amount": 12.5, "items": [{"sku": "a"}], "all": 1}',
    (("source", b"web"), ("raw", b"\xff"), ("none", None)),
)


@pytest.mark.parametrize(
    "expression",
    [
        "value.amount > 10",
        'key.startsWith("customer-") && key.matches("^c.*[0-9]$")',
        'headers.source == "web" && headers["none"] == null && headers.raw == b"\\xff"',
        "offset == 5 && partition == 1",
        'timestamp > timestamp("2024-01-01T00:00:00Z") && timestamp < timestamp("2025-01-01T00:00:00Z")',
        "!has(value.missing) && value.all == 1",
        '"all(" + "matches(" == "all(matches("',  # words of a text are no calls
        "value.items[0].sku == 'a'",
    ],
)
def test_an_expression_sees_all_parts_of_a_record(expression: str) -> None:
    assert RecordFilter(expression, OF_A_SERVICE)(1, RECORD)
    assert not RecordFilter(f"!({expression})", OF_A_SERVICE)(1, RECORD)


def test_a_tombstone_is_null() -> None:
    assert RecordFilter("value == null", OF_A_SERVICE)(0, Record(key=b"k"))


def test_a_time_that_no_calendar_has_is_null() -> None:
    assert RecordFilter("timestamp == null", OF_A_SERVICE)(0, Record(timestamp=-1))


def test_keys_and_values_are_what_the_encodings_make_of_them() -> None:
    record = Record(key=b"17", value=b"\x01")
    assert RecordFilter("key == 17", OF_A_SERVICE)(0, record)
    assert RecordFilter('key == "17" && value == "01"', OF_A_SERVICE, Encoding.TEXT, Encoding.HEX)(0, record)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("key ==", "at 7: Syntax error"),
        ('key.size() > 3 &&\n key.matches("a"', "at 17: Syntax error"),
        ('kye == "1"', "there is no kye: expected key, value"),
        ("value.exists(i, true)", "exists at 7: a service"),
        ("[1].existsOne(offset, true)", "existsOne at 5: a service"),
        ("k" * 1_025, "1024 characters"),
    ],
)
def test_an_expression_that_is_wrong_is_refused_with_its_place(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match="filter: ") as refused:
        RecordFilter(expression, OF_A_SERVICE)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("value.missing > 1", "3:5: there is no field 'missing'"),
        ('value.amount > "x"', "3:5: No such overload"),
        ("key", "3:5: it is no condition: the result is str"),
        ('key.matches("(")', "3:5: (: not a regular expression in RE2's syntax"),
        ("key.matches(1)", "3:5: matches takes texts"),
        ("1 / (offset - 5) == 1", "3:5: division by zero"),
    ],
)
def test_a_record_for_which_it_fails_is_counted_and_left_out(
    expression: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    matches = RecordFilter(expression, OF_A_SERVICE)
    assert not matches(3, RECORD) and not matches(4, RECORD)
    assert matches.failures == 2
    assert matches.first_failure is not None and matches.first_failure.startswith(why)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("record", "expression"),
    [
        (Record(value=b"x" * 20_000), 'value != ""'),
        (Record(headers=(("h", b"x" * 20_000),)), 'headers.h != ""'),
    ],
)
def test_a_service_bounds_what_a_filter_costs(record: Record, expression: str) -> None:
    matches = RecordFilter(expression, OF_A_SERVICE)
    assert not matches(0, record) and matches.failures == 1
    assert RecordFilter("offset == 0", OF_A_SERVICE)(0, record)  # of what it does not look at there may be more
    assert RecordFilter(expression, OF_A_COMMAND)(0, record)


def test_a_service_bounds_what_a_search_costs() -> None:
    record = Record(value=b"x" * 16_000)
    costly = 'value.matches("(x{1,100}){10}y")'
    matches = RecordFilter(costly, OF_A_SERVICE)
    assert not matches(0, record) and matches.failures == 1
    assert matches.first_failure is not None and "may take too long" in matches.first_failure
    assert RecordFilter('value.matches("x+$")', OF_A_SERVICE)(0, record)
    assert not matches(0, Record(value=b"x" * 300)) and matches.failures == 1  # each record anew
    command = RecordFilter(costly, OF_A_COMMAND)
    assert not command(0, record) and command.failures == 0


def test_a_command_has_loops() -> None:
    assert RecordFilter('value.items.exists(i, i.sku == "a")', OF_A_COMMAND)(0, RECORD)

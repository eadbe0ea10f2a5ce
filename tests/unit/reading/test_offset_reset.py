"""Plans of offset resets, by the rules of Kafka's tool."""

from __future__ import annotations

import pytest

from tailrace.reading.offset_reset import (
    NewOffset,
    OffsetReset,
    To,
    parse_csv,
    parse_datetime,
    parse_duration,
    parse_topic,
    plan,
    write_csv,
)
from tailrace.reading.start import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

A, B = ("a", 0), ("b", 1)
COMMITTED = {A: 5}
LOGS = {EARLIEST_TIMESTAMP: {A: 2, B: 0}, LATEST_TIMESTAMP: {A: 9, B: 4}, 70: {A: 6, B: -1}}


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        (OffsetReset(To.EARLIEST), [2, 0]),
        (OffsetReset(To.LATEST), [9, 4]),
        (OffsetReset(To.CURRENT), [5, 4]),
        (OffsetReset(To.OFFSET, 3), [3, 3]),
        (OffsetReset(To.OFFSET, 1), [2, 1]),
        (OffsetReset(To.OFFSET, 100), [9, 4]),
        (OffsetReset(To.TIME, 70), [6, 4]),
        (OffsetReset(To.FILE, offsets={A: 1, B: 3}), [2, 3]),
    ],
)
def test_each_way_to_reset(reset: OffsetReset, expected: list[int]) -> None:
    rows = plan(reset, [B, A], COMMITTED, LOGS)
    assert [(row.topic, row.current_offset) for row in rows] == [("a", 5), ("b", None)]
    assert [row.new_offset for row in rows] == expected


@pytest.mark.parametrize(("by", "expected", "wanted"), [(2, 7, 7), (-2, 3, 3), (-9, 2, -4), (9, 9, 14)])
def test_a_shift_ends_at_the_ends_of_the_log(by: int, expected: int, wanted: int) -> None:
    assert plan(OffsetReset(To.SHIFT, by), [A], COMMITTED, LOGS) == [NewOffset("a", 0, 5, expected, wanted)]


def test_what_cannot_be_planned_is_named() -> None:
    with pytest.raises(ValueError, match="b-1: no committed offset to shift"):
        plan(OffsetReset(To.SHIFT, 1), [A, B], COMMITTED, LOGS)
    with pytest.raises(ValueError, match="a-1 and 1 more: no leader answers"):
        plan(OffsetReset(To.LATEST), [A, ("a", 1), ("a", 2)], COMMITTED, LOGS)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01", None),
        ("1969-01-01T00:00:00", None),
        ("tomorrow", None),
    ],
)
def test_times_are_in_utc_unless_they_have_a_zone(text: str, time_ms: int | None) -> None:
    if time_ms is None:
        with pytest.raises(ValueError, match="expected a time"):
            parse_datetime(text)
    else:
        assert parse_datetime(text) == time_ms


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("P1DT2H30M10S", 95_410_000),
        ("PT0.5S", 500),
        ("P0D", 0),
        ("pt1h", 3_600_000),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1h", None),
        ("P1Y", None),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, time_ms: int | None) -> None:
    if time_ms is None:
        with pytest.raises(ValueError, match="expected a duration"):
            parse_duration(text)
    else:
        assert parse_duration(text) == time_ms


def test_topics_may_have_partitions() -> None:
    assert [parse_topic(text) for text in ("orders", "orders:0,12", "orders:", "orders:x")] == [
        ("orders", None),
        ("orders", [0, 12]),
        ("orders:", None),
        ("orders:x", None),
    ]


def test_a_file_is_read_as_it_is_written() -> None:
    rows = [NewOffset("a", 0, None, 7, 7), NewOffset('odd"name', 1, 3, 0, 0)]
    assert write_csv(rows).startswith("a,0,7\n")
    assert parse_csv(write_csv(rows) + "\n") == {("a", 0): 7, ('odd"name', 1): 0}
    for wrong in ("a,0", "a,b,1", "a,0,-1", "g,a,0,1"):
        with pytest.raises(ValueError, match="line 1: expected topic,partition,offset"):
            parse_csv(wrong)

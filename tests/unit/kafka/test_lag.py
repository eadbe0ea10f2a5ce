"""Lag in records and in seconds, and the same in SQL."""

import sqlite3

import pytest

from tailrace.kafka.lag import LAG_IN_SQL, NOTHING_TO_READ, lag, lag_seconds, lag_seconds_in_sql, lag_trend

NOW_MS = 100_000
CASES = (
    (3, 5, 97_500, 2, 2.5),
    (5, 5, None, 0, 0.0),
    (9, 5, None, 0, 0.0),  # a commit beyond the end
    (3, 5, NOTHING_TO_READ, 2, 0.0),  # the marker of a transaction is all there is
    (3, 5, 100_001, 2, 0.0),  # the producer's clock is ahead
    (3, 5, None, 2, None),
    (3, None, None, None, None),
)


@pytest.mark.parametrize(("committed", "end", "timestamp_ms", "records", "seconds"), CASES)
def test_lag_is_the_same_in_python_and_in_sql(
    committed: int, end: int | None, timestamp_ms: int | None, records: int | None, seconds: float | None
) -> None:
    found = None if end is None else lag(committed, end)
    assert (found, lag_seconds(found, timestamp_ms, NOW_MS)) == (records, seconds)
    query = f"SELECT {LAG_IN_SQL}, {lag_seconds_in_sql(str(NOW_MS))} FROM (SELECT ? AS committed_offset,"
    with sqlite3.connect(":memory:") as database:
        row = database.execute(
            f"{query} ? AS log_end_offset, ? AS next_timestamp_ms)", (committed, end, timestamp_ms)
        ).fetchone()
    database.close()
    assert row == (records, seconds)


def test_a_trend_is_records_a_second_and_negative_for_a_group_that_catches_up() -> None:
    assert [lag_trend(*look) for look in ((10, 30, 2_000), (30, 10, 2_000), (5, 5, 1), (None, 5, 1), (5, 5, 0))] == [
        10.0,
        -10.0,
        0.0,
        None,
        None,
    ]

"""When a window begins and ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tailrace.frames.period import When, timestamp_of

NOW_MS = 1_795_910_400_000


@pytest.mark.parametrize(
    ("when", "timestamp_ms"),
    [
        ("250ms", NOW_MS - 250),
        ("90s", NOW_MS - 90_000),
        ("5m", NOW_MS - 300_000),
        ("1h", NOW_MS - 3_600_000),
        ("7d", NOW_MS - 7 * 86_400_000),
        ("2w", NOW_MS - 14 * 86_400_000),
        ("999999999w", 0),
        (timedelta(hours=1), NOW_MS - 3_600_000),
        (datetime(2026, 11, 28, 9, 30, tzinfo=UTC), 1_795_858_200_000),
        ("2026-11-28T09:30+00:00", 1_795_858_200_000),
        ("1795858200000", 1_795_858_200_000),
        (1_795_858_200_000, 1_795_858_200_000),
        (-1, 0),
    ],
)
def test_a_duration_counts_from_now_and_a_time_is_itself(when: When, timestamp_ms: int) -> None:
    assert timestamp_of(when, NOW_MS) == timestamp_ms


@pytest.mark.parametrize("text", ["", "1y", "h", "-1h", "yesterday", "1.5h", "9999999999h"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration as 90s, 1h or 7d"):
        timestamp_of(text, NOW_MS)

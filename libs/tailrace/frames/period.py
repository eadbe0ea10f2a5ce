"""When a window begins and ends: a duration before now, or a time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from tailrace.reading.start import parse_time

When: TypeAlias = str | int | datetime | timedelta
_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d|w)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def timestamp_of(when: When, now_ms: int) -> int:
    """Milliseconds since 1970, of: themselves, 90s, 1h or 7d before now, a timedelta, a datetime, a time as a text.

    A datetime without a zone is in this machine's. Raises ValueError.
    """
    if isinstance(when, int):
        return max(0, when)
    if isinstance(when, timedelta):
        return max(0, now_ms - round(when.total_seconds() * 1000))
    if isinstance(when, datetime):
        return max(0, round(when.timestamp() * 1000))
    if found := _DURATION.fullmatch(when):
        return max(0, now_ms - int(found[1]) * _UNITS_MS[found[2]])
    try:
        return parse_time(when)
    except ValueError:
        raise ValueError(f"{when}: expected a duration as 90s, 1h or 7d, or a time as 2026-11-28T09:30") from None

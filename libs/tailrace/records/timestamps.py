"""Timestamps of records: the producers' own, so that some of them are no date."""

from __future__ import annotations

from typing import Final

_YEAR_10000_MS: Final = 253_402_300_800_000


def has_date(timestamp_ms: int) -> bool:
    """Whether it is of the years 1970 to 9999, as Python's datetime can say it."""
    return 0 <= timestamp_ms < _YEAR_10000_MS

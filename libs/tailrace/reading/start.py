"""Where a reader begins in each partition: an offset, a time, an end of the log, or so many records before it.

The spellings are kcat's (`-o beginning`, `end`, `5`, `-5`, `s@TIME`), and Kafka's `earliest` and `latest`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

EARLIEST_TIMESTAMP: Final = -2  # of ListOffsets
LATEST_TIMESTAMP: Final = -1
_2_TO_63: Final = 2**63
_DIGITS_MAX: Final = 19
_WORDS: Final = {
    "earliest": EARLIEST_TIMESTAMP,
    "beginning": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "end": LATEST_TIMESTAMP,
}


class Start(NamedTuple):
    """An offset, or the offset that ListOffsets says for a timestamp, and so many records before it."""

    offset: int | None = None
    timestamp: int = LATEST_TIMESTAMP
    back: int = 0


EARLIEST: Final = Start(timestamp=EARLIEST_TIMESTAMP)
LATEST: Final = Start()


def parse_start(text: str) -> Start:
    """Raises ValueError with a sentence that says what is expected."""
    if (timestamp := _WORDS.get(text)) is not None:
        return Start(timestamp=timestamp)
    if text.startswith("s@"):
        return Start(timestamp=parse_time(text.removeprefix("s@")))
    number = _number(text)
    if number is None:
        raise ValueError(f"{text}: expected earliest, latest, an offset, -N for the last N records, or s@TIME")
    return Start(back=-number) if text.startswith("-") else Start(offset=number)


def parse_time(text: str) -> int:
    """Milliseconds since 1970: such a number, or a time of ISO 8601 (without a zone: in this machine's)."""
    number = _number(text)
    if number is not None and number >= 0:
        return number
    try:
        found = round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        found = -1
    if found < 0:
        raise ValueError(f"{text}: expected milliseconds since 1970, or a time as 2026-11-28T09:30")
    return found


def first_offset(start: Start, at: int, earliest: int, latest: int) -> int:
    """The offset to begin at in a log of [earliest, latest).

    at: what ListOffsets says for the start's timestamp; -1: no record is as new. Raises ValueError for an offset
    outside of the log.
    """
    if start.offset is not None:
        if not earliest <= start.offset <= latest:
            raise ValueError(f"offset {start.offset} is not in the log, which has {earliest} to {latest}")
        return start.offset
    return max(earliest, (latest if at < 0 else at) - start.back)


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX) or int(digits) >= _2_TO_63:
        return None
    return int(text)

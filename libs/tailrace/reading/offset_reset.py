"""Resets of committed offsets: where to, and the plan that follows from what the logs hold.

The rules are those of kafka-consumer-groups.sh --reset-offsets: an offset outside of the log becomes the nearest end of
it, a time after the last record is the end, and a partition without a commit is not shifted.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

from tailrace.kafka.ids import TopicPartition
from tailrace.reading.start import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

NO_OFFSET: Final = -1  # of ListOffsets: no record is as new
_DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d{1,9})D)?(?:T(?=.)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_COLUMNS: Final = 3  # of a row of a file: topic, partition, offset
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_TOPIC_AND_PARTITIONS: Final = re.compile(r"(?P<topic>[^:]+):(?P<indexes>[0-9]{1,10}(?:,[0-9]{1,10})*)", re.ASCII)


class To(Enum):
    """Where committed offsets go."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    FILE = "file"


class OffsetReset(NamedTuple):
    """A wish: value is the offset, the number of records, or the time in ms; offsets are those of a file."""

    to: To
    value: int = 0
    offsets: Mapping[TopicPartition, int] = {}

    @property
    def timestamps(self) -> tuple[int, ...]:
        """The timestamps that ListOffsets is to be asked for."""
        if self.to is To.EARLIEST:
            return (EARLIEST_TIMESTAMP,)
        if self.to in {To.LATEST, To.CURRENT}:
            return (LATEST_TIMESTAMP,)
        return (self.value, LATEST_TIMESTAMP) if self.to is To.TIME else (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)


class NewOffset(NamedTuple):
    """One row of a plan; current_offset is None without a commit, and wanted differs where the log did not have it."""

    topic: str
    partition: int
    current_offset: int | None
    new_offset: int
    wanted: int


Offsets = Mapping[int, Mapping[TopicPartition, int]]


def plan(
    reset: OffsetReset, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], found: Offsets
) -> list[NewOffset]:
    """The new offset of each partition; found: what ListOffsets said for reset.timestamps, by timestamp.

    Raises ValueError, with a sentence, for partitions that have no such offset.
    """
    rows = sorted(set(partitions))
    without_leader = [key for key in rows if any(key not in found[timestamp] for timestamp in reset.timestamps)]
    if without_leader:
        raise ValueError(f"{_named(without_leader)}: no leader answers, so that the log's offsets are unknown")
    if reset.to is To.SHIFT and (missing := [key for key in rows if key not in committed]):
        raise ValueError(f"{_named(missing)}: no committed offset to shift")
    return [_new_offset(reset, key, committed.get(key), found) for key in rows]


def _new_offset(reset: OffsetReset, key: TopicPartition, current: int | None, found: Offsets) -> NewOffset:
    at = {timestamp: found[timestamp][key] for timestamp in reset.timestamps}
    if reset.to is To.CURRENT:
        offset = at[LATEST_TIMESTAMP] if current is None else current
    elif reset.to in {To.EARLIEST, To.LATEST}:
        (offset,) = at.values()
    elif reset.to is To.TIME:
        offset = at[LATEST_TIMESTAMP] if at[reset.value] == NO_OFFSET else at[reset.value]
    else:
        wanted = {To.OFFSET: reset.value, To.SHIFT: (current or 0) + reset.value}.get(reset.to)
        wanted = reset.offsets[key] if wanted is None else wanted
        offset = min(max(wanted, at[EARLIEST_TIMESTAMP]), at[LATEST_TIMESTAMP])
        return NewOffset(*key, current, offset, wanted)
    return NewOffset(*key, current, offset, offset)


def _named(keys: list[TopicPartition]) -> str:
    (topic, partition), more = keys[0], len(keys) - 1
    return f"{topic}-{partition}{f' and {more} more' if more else ''}"


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970 of YYYY-MM-DDThh:mm:ss.sss, in UTC unless the text has a zone, as Kafka's tool."""
    try:
        if "T" not in text:
            raise ValueError
        found = datetime.fromisoformat(text)
        found_ms = round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        found_ms = -1
    if found_ms < 0:
        raise ValueError(f"{text}: expected a time as 2026-11-28T09:30:00.000, in UTC or with a zone")
    return found_ms


def parse_duration(text: str) -> int:
    """Milliseconds of PnDTnHnMnS."""
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text}: expected a duration as P1DT2H30M10S")
    return round(sum(float(count) * _UNITS_MS[unit] for unit, count in parts.groupdict(default="0").items()))


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """A topic of --topic with its partitions: `orders`, or `orders:0,2`; None for all of them."""
    parts = _TOPIC_AND_PARTITIONS.fullmatch(text)
    return (text, None) if parts is None else (parts["topic"], [int(index) for index in parts["indexes"].split(",")])


def parse_csv(text: str) -> dict[TopicPartition, int]:
    """The rows `topic,partition,offset` that --export writes. Raises ValueError."""
    found = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        if len(row) != _COLUMNS or not all(_NUMBER.fullmatch(part.strip()) for part in row[1:]):
            raise ValueError(f"line {number}: expected topic,partition,offset")
        found[row[0].strip(), int(row[1])] = int(row[2])
    return found


def write_csv(rows: Iterable[NewOffset]) -> str:
    """What parse_csv reads, and Kafka's tool."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((row.topic, row.partition, row.new_offset) for row in rows)
    return out.getvalue()

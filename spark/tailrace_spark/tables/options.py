"""What the commands on tables are given."""

from __future__ import annotations

import re

from tailrace_spark.job import JobRun, Option
from tailrace_spark.refusal import Refusal
from tailrace_spark.tables import delta
from tailrace_spark.values import whole

TABLE = Option("table", "a Delta table, or a folder of several: the --output of a job", required=True)
OPTIMIZE_EVERY = Option(
    "--optimize-every", "batches between two compactions; 0 leaves it to `table optimize`", 10, convert=whole(0)
)
HOURS = {"h": 1, "d": 24, "w": 168}


def hours(text: str) -> int:
    """`36h`, `7d` or `2w`, an hour at least: a shorter time takes files from a write that has not committed."""
    found = re.fullmatch(r"(\d+)([hdw])", text)
    if not found or int(found[1]) < 1:
        raise ValueError(f"{text!r} is no time of an hour or more; for example 36h, 7d or 2w")
    return int(found[1]) * HOURS[found[2]]


def kept(text: str) -> str:
    """A time as `hours` takes it."""
    hours(text)
    return text


def existing(run: JobRun) -> list[str]:
    """The tables that are named. Raises Refusal."""
    found = delta.tables_in(run.spark, run.options.table)
    if not found:
        raise Refusal(f"{run.options.table} is no Delta table and has none in it; name the --output of a job.")
    return found


def is_due(number: int, every: int) -> bool:
    """Whether a compaction follows this batch."""
    return every > 0 and number % every == every - 1

"""What the commands around the table of log lines are given."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta

from tailrace_spark.job import JobRun, Option
from tailrace_spark.logs.store import LogTables
from tailrace_spark.refusal import Refusal
from tailrace_spark.tables import delta

OUTPUT_VARIABLE = "TAILRACE_LOGS"
OUTPUT = Option(
    "--output", f"folder of the table, also ${OUTPUT_VARIABLE}", os.environ.get(OUTPUT_VARIABLE, "tailrace-logs")
)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def existing(run: JobRun) -> LogTables:
    """The tables that --output names. Raises Refusal."""
    tables = LogTables(run.options.output)
    if not delta.is_table(run.spark, tables.lines):
        raise Refusal(
            f"There is no table of logs in {run.options.output}; `tailrace-spark logs` makes it, --output names it."
        )
    return tables


def moment_us(text: str, now_us: int) -> int:
    """`2h` before now, or a date and time (UTC unless it says its zone); microseconds since 1970. Raises ValueError."""
    if found := re.fullmatch(r"(\d+)([smhdw])", text.strip()):
        return now_us - round(timedelta(**{UNITS[found[2]]: int(found[1])}) / timedelta(microseconds=1))
    when = datetime.fromisoformat(text.strip())
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return round(since / timedelta(microseconds=1))

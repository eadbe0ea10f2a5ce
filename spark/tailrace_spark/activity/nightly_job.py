"""`tailrace-spark activity nightly`: the same tables for one whole day (UTC), from the retained topics.

The day's sessions are those that begin in it. Records are read from some hours before to some hours after, by their own
timestamps, so that sessions over midnight are whole and late activities are in: nothing is too late for the night.
"""

from __future__ import annotations

import datetime
from argparse import Namespace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace_spark import dead_letter, events, kafka, values
from tailrace_spark.activity import frames
from tailrace_spark.activity.options import GAP, TOPIC, needed
from tailrace_spark.activity.report_job import show
from tailrace_spark.activity.tables import Tables
from tailrace_spark.job import BOOTSTRAP, KAFKA_OPTION, OUTPUT, Job, JobRun, Option

HOUR_MS = 3_600_000
MARGIN = Option(
    "--margin",
    "hours read before and after the day: the longest session, the latest activity",
    4,
    convert=values.whole(0),
)


def day(text: str) -> datetime.date:
    """--day."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is no day; for example 2026-11-20") from None


def span_ms(options: Namespace) -> tuple[int, int]:
    """The day's begin and end, milliseconds since 1970."""
    midnight = datetime.datetime.combine(options.day, datetime.time(), datetime.UTC)
    begin = int(midnight.timestamp() * 1000)
    return begin, begin + 24 * HOUR_MS


def nightly(run: JobRun) -> None:
    """Reads, writes the day's part of each table, shows it."""
    options = run.options
    run.spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    begin_ms, end_ms = span_ms(options)
    margin_ms = options.margin * HOUR_MS
    within = {
        "startingTimestamp": str(begin_ms - margin_ms),
        "endingTimestamp": str(end_ms + margin_ms),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    parsed = frames.parse(kafka.read_batch(run.spark, options, options.topic, **within)).persist()
    try:
        of_day = F.unix_millis("timestamp").between(begin_ms, end_ms - 1)
        reasons = dead_letter.write(unwritten(run, events.refused(parsed).where(of_day)), options, "activity")
        starts = F.unix_millis("start").between(begin_ms, end_ms - 1)
        whole = frames.sessions(events.usable(parsed), options.gap).where(starts)
        tables = Tables(options.output, options.topic)
        counted = tables.replace_day(whole, options.day)
    finally:
        parsed.unpersist()
    run.say(
        f"{options.day}: {counted.sessions:,} sessions, {counted.activities:,} activities, {dead_letter.shown(reasons)}"
    )
    show(run, tables, f"day = '{options.day}'")


def unwritten(run: JobRun, refused: DataFrame) -> DataFrame:
    """Those that no earlier run has put into the dead-letter topic."""
    letters = kafka.read_batch(run.spark, run.options, [dead_letter.topic_of(run.options)])
    return dead_letter.unwritten(refused, letters)


JOB = Job(
    "activity nightly",
    "Sessions, top pages and funnels of one day, from the retained topics.",
    (
        BOOTSTRAP,
        TOPIC,
        dead_letter.OPTION,
        OUTPUT,
        Option("--day", "UTC, such as 2026-11-20", required=True, convert=day),
        GAP,
        MARGIN,
        KAFKA_OPTION,
    ),
    nightly,
    needed,
)

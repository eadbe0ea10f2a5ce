"""`tailrace-spark activity report`: top pages and the funnel from the tables, live or nightly."""

from __future__ import annotations

from pyspark.sql import functions as F

from tailrace_spark.activity import frames
from tailrace_spark.activity.tables import Tables
from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.values import moment

TOP = 10


def show(run: JobRun, tables: Tables, where: str = "true") -> None:
    """Says the pages with most views, and how far sessions came, of the parts and hours that are meant."""
    pages = frames.add_up(tables.read(run.spark, "pages").where(where), "page")
    run.say(f"{'page':40} {'views':>10} {'sessions':>10}")
    for row in pages.orderBy(F.desc("views"), "page").limit(TOP).collect():
        run.say(f"{row.page[:40]:40} {row.views:10,} {row.sessions:10,}")
    funnel = frames.add_up(tables.read(run.spark, "funnel").where(where), "step", "activity").orderBy("step").collect()
    run.say(f"{'funnel':40} {'sessions':>10} {'of all':>10}")
    for row in funnel:
        run.say(f"{row.step}. {row.activity[:37]:37} {row.sessions:10,} {row.sessions / funnel[0].sessions:10.1%}")


def report(run: JobRun) -> None:
    """--since and --until are hours in the tables' own time."""
    options = run.options
    where = f"hour >= timestamp '{options.since}' and hour < timestamp '{options.until}'"
    show(run, Tables(options.input, ()), where)


JOB = Job(
    "activity report",
    "Top pages and the funnel of some hours, from the tables that activity wrote.",
    (
        Option("--input", "the --output of activity", required=True),
        Option("--since", "first hour, UTC", "1970-01-01 00:00:00", convert=moment),
        Option("--until", "hour after the last", "9999-01-01 00:00:00", convert=moment),
    ),
    report,
)

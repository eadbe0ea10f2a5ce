"""The jobs by name; a module has `JOB` and is imported when its job is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tailrace_spark.refusal import Refusal

if TYPE_CHECKING:
    from tailrace_spark.job import Job

JOBS: dict[str, tuple[str, str]] = {
    "archive": ("tailrace_spark.archive.job", "topics to a Delta table, every committed record as it is"),
    "activity": ("tailrace_spark.activity.live_job", "sessions, top pages and funnels of a website, live"),
    "activity nightly": ("tailrace_spark.activity.nightly_job", "the same of one day, from the retained topics"),
    "activity report": ("tailrace_spark.activity.report_job", "top pages and the funnel of some hours"),
    "restore": ("tailrace_spark.archive.restore_job", "an archive back into topics, in order"),
    "changes": ("tailrace_spark.changes.job", "Debezium's change events to a table of the current rows"),
    "demo": ("tailrace_spark.demo.job", "the job logs on this machine's own logs, and a search"),
    "metrics": ("tailrace_spark.metrics.job", "requests to rates, counts and percentiles per window"),
    "stream validate": ("tailrace_spark.stream.validate_job", "stage 1 of 3: raw orders to valid ones"),
    "stream enrich": ("tailrace_spark.stream.enrich_job", "stage 2 of 3: joined with a topic of customers"),
    "stream aggregate": ("tailrace_spark.stream.aggregate_job", "stage 3 of 3: revenue per country and window"),
    "suggestions": ("tailrace_spark.suggestions.job", "purchases to similar products, a nightly batch"),
    "suggestions lookup": ("tailrace_spark.suggestions.lookup_job", "what is similar to a product"),
    "logs": ("tailrace_spark.logs.job", "log lines of many formats into a Delta table, with a search index"),
    "logs search": ("tailrace_spark.logs.search_job", "lines that match, and what it read"),
    "table optimize": ("tailrace_spark.tables.optimize_job", "small files of a Delta table into large ones"),
    "table vacuum": ("tailrace_spark.tables.vacuum_job", "deletes files that no kept version of a table has"),
}


def find(words: list[str]) -> tuple[str, list[str]]:
    """The job that the words begin with, the longest name first, and the words after it. Raises Refusal."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in JOBS:
            return name, words[length:]
    asked = words[0] if words else ""
    raise Refusal(f"{asked!r} is no job; there are: {', '.join(JOBS)}.")


def load(name: str) -> Job:
    """Imports the job."""
    found: Job = importlib.import_module(JOBS[name][0]).JOB
    return found

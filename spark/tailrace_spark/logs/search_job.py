"""The command `logs search`."""

from __future__ import annotations

from pyspark.sql import Row

from tailrace.runtime.clock import SystemClock
from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.logs import query
from tailrace_spark.logs.options import OUTPUT, existing, moment_us
from tailrace_spark.logs.search import Ask, search
from tailrace_spark.refusal import Refusal
from tailrace_spark.values import whole

SINCE = Option("--since", "only lines from then on: 2h, 30m, 7d, or a time such as 2026-11-21T16:00")
UNTIL = Option("--until", "only lines before that")
SOURCE = Option("--source", "only lines of this source")
WIDEST = 400  # characters of a message that are printed
LIMIT = Option("--limit", "lines to show, the newest", 20, convert=whole(1))


def moment(flag: str, text: str | None) -> int | None:
    """Raises Refusal."""
    if text is None:
        return None
    try:
        return moment_us(text, SystemClock().wall_ms() * 1000)
    except ValueError:
        raise Refusal(f"{flag} {text!r} is no time; for example {flag} 2h or {flag} 2026-11-21T16:00.") from None


def shown(row: Row) -> str:
    """A line as it is printed."""
    host, service = row.host or "-", row.service or "-"
    message = row.message if len(row.message) <= WIDEST else row.message[:WIDEST] + "…"
    return f"{row.timestamp:%Y-%m-%d %H:%M:%S} {row.source} {host} {service} {row.severity}: {message}"


def run(run: JobRun) -> None:
    """Prints the lines, the oldest first, and what was read."""
    options = run.options
    ask = Ask(
        query.parse(options.query),
        moment("--since", options.since),
        moment("--until", options.until),
        options.source,
        options.limit,
    )
    answer = search(run.spark, existing(run), ask)
    for row in reversed(answer.rows):
        run.say(shown(row))
    run.say(str(answer.scan))


JOB = Job(
    "logs search",
    "Lines that match, such as 'error AND (timeout OR \"connection reset\") NOT service:cart trace*'.",
    (Option("query", "what to search for", required=True), OUTPUT, SINCE, UNTIL, SOURCE, LIMIT),
    run,
)

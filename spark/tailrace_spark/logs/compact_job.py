"""The command `logs compact`: many small segments into few, beside a running job or without one."""

from __future__ import annotations

from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.logs.compact import MIN_SEGMENTS, compact
from tailrace_spark.logs.options import OUTPUT, existing
from tailrace_spark.values import whole

LEAST = Option("--min-segments", "of one source and hour, from which on it is worth it", MIN_SEGMENTS, convert=whole(2))


def run(run: JobRun) -> None:
    """Says what it did."""
    gone = compact(run.spark, existing(run), run.say, run.options.min_segments)
    run.say(f"{gone:,} segments compacted")


JOB = Job("logs compact", "Makes few large files of many small ones; readers notice nothing.", (OUTPUT, LEAST), run)

"""The command `table optimize`: many small files into few, beside a running job or without one."""

from __future__ import annotations

from tailrace_spark.job import Job, JobRun
from tailrace_spark.tables import paged
from tailrace_spark.tables.options import TABLE, existing


def run(run: JobRun) -> None:
    """Says what it did."""
    gone = sum(paged.optimize(run.spark, path, run.say) for path in existing(run))
    run.say(f"{gone:,} files compacted")


JOB = Job("table optimize", "Makes few large files of many small ones (OPTIMIZE).", (TABLE,), run)

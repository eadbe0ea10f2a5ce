"""The command `logs vacuum`: deletes what compactions replaced and what crashes left."""

from __future__ import annotations

from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.logs.options import OUTPUT, existing
from tailrace_spark.logs.search_job import moment

KEEP = Option("--keep", "files younger than this stay: a search may read them, a write be about to name them", "1d")


def run(run: JobRun) -> None:
    """Says what it did."""
    older_than = moment("--keep", run.options.keep)
    assert older_than is not None
    existing(run).vacuum(older_than // 1000, run.say)


JOB = Job("logs vacuum", "Deletes files that the table is no longer made of.", (OUTPUT, KEEP), run)

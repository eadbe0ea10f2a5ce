"""The command `table vacuum`: deletes the files of old versions and of writes that failed."""

from __future__ import annotations

from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.tables import delta
from tailrace_spark.tables.options import TABLE, existing, hours, kept

KEEP = Option("--keep", "versions of this time stay readable, and files younger than it stay", "7d", convert=kept)


def run(run: JobRun) -> None:
    """Says what it did."""
    for path in existing(run):
        gone = delta.vacuum(run.spark, path, hours(run.options.keep))
        run.say(f"{path}: {gone:,} files deleted")


JOB = Job("table vacuum", "Deletes files that the last versions of a table do not have (VACUUM).", (TABLE, KEEP), run)

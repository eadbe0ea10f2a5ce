"""Stage 1, `stream validate`: raw orders to valid ones, in one form, keyed by customer."""

from __future__ import annotations

from argparse import Namespace

from pyspark.sql import DataFrame

from tailrace_spark import dead_letter, events, kafka, once
from tailrace_spark.job import Job, JobRun
from tailrace_spark.stream import frames
from tailrace_spark.stream.stage import COMMON, Stage, to_option, topic_option

NAME = "stream validate"


def run(run: JobRun) -> None:
    """See Stage."""
    options = run.options

    def work(batch: DataFrame, number: int) -> str:
        reasons = dead_letter.write(events.refused(batch), options, NAME)
        valid = once.stamped(events.usable(batch), NAME)
        kafka.write_batch(frames.as_records(valid, options.to, tuple(frames.ORDER), ("customer",)), options)
        return f"{valid.count():,} valid, {dead_letter.shown(reasons)}"

    Stage(NAME, frames.orders, work).run(run)


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.topic, options.to, dead_letter.topic_of(options))


JOB = Job(
    NAME,
    "Raw orders to valid ones; what is none goes to the dead-letter topic.",
    (topic_option("orders"), to_option("orders.valid"), dead_letter.OPTION, *COMMON),
    run,
    needed,
)

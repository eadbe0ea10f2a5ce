"""Stage 2, `stream enrich`: valid orders with their customer's country and tier, from a compacted topic as a table."""

from __future__ import annotations

from argparse import Namespace

from pyspark.sql import DataFrame

from tailrace_spark import dead_letter, events, kafka, once
from tailrace_spark.batches import persisted
from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.stream import frames
from tailrace_spark.stream.stage import COMMON, Stage, to_option, topic_option

NAME = "stream enrich"
TABLE = Option("--table", "compacted topic of customers, keyed by customer; read anew for each batch", "customers")


def run(run: JobRun) -> None:
    """See Stage."""
    options = run.options

    def work(batch: DataFrame, number: int) -> str:
        table = frames.customers(kafka.read_batch(batch.sparkSession, options, [options.table]))
        joined = frames.enriched(batch, table)
        with persisted(joined):
            reasons = dead_letter.write(events.refused(joined), options, NAME)
            found = once.stamped(events.usable(joined), NAME)
            kafka.write_batch(frames.as_records(found, options.to, tuple(frames.ENRICHED), ("customer",)), options)
            return f"{found.count():,} enriched, {dead_letter.shown(reasons)}"

    Stage(NAME, frames.orders, work).run(run)


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.topic, options.to, options.table, dead_letter.topic_of(options))


JOB = Job(
    NAME,
    "Valid orders joined with a compacted topic of customers.",
    (topic_option("orders.valid"), to_option("orders.enriched"), TABLE, dead_letter.OPTION, *COMMON),
    run,
    needed,
)

"""Stage 3, `stream aggregate`: enriched orders to revenue per country and window, once a window is closed."""

from __future__ import annotations

from argparse import Namespace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace_spark import dead_letter, events, kafka
from tailrace_spark.batches import BatchState, newest_us, persisted, shown, watermark_us
from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.stream import frames
from tailrace_spark.stream.stage import COMMON, Stage, to_option, topic_option
from tailrace_spark.values import whole

NAME = "stream aggregate"
WINDOW = Option("--window", "seconds of a window", 300, convert=whole(1))
LATENESS = Option("--lateness", "seconds that an order may be behind the newest", 300, convert=whole(0))


def run(run: JobRun) -> None:
    """See Stage."""
    options = run.options
    spans = frames.windows(options.window, options.lateness)
    state = BatchState(options.checkpoint, "windows", frames.REVENUE)

    def work(batch: DataFrame, number: int) -> str:
        before = state.before(batch.sparkSession, number)
        orders = events.usable(batch).withColumn("start", spans.start_of(F.col("time")))
        closed_before = spans.is_closed(before.watermark_us)
        late = orders.where(closed_before).withColumn("reason", F.lit("too late")).select(*events.SOURCE, "reason")
        reasons = dead_letter.write(events.refused(batch).unionByName(late), options, NAME)
        watermark = watermark_us(newest_us(orders), options.lateness, before.watermark_us)
        sums = spans.fold(before.rows, frames.sums(orders.where(~closed_before), spans))
        with persisted(sums):
            closed = sums.where(spans.is_closed(watermark))
            records = frames.as_records(closed, options.to, tuple(frames.REVENUE.names), ("country", "start"))
            kafka.write_batch(records, options)
            state.after(sums.where(~spans.is_closed(watermark)), number, watermark)
            return f"{closed.count():,} closed rows, {dead_letter.shown(reasons)}, {shown(watermark)}"

    Stage(NAME, frames.known, work).run(run)


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.topic, options.to, dead_letter.topic_of(options))


JOB = Job(
    NAME,
    "Enriched orders to revenue per country and window.",
    (topic_option("orders.enriched"), to_option("revenue"), WINDOW, LATENESS, dead_letter.OPTION, *COMMON),
    run,
    needed,
)

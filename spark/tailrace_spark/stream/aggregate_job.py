"""Stage 3, `stream aggregate`: enriched orders to revenue per country and window, once a window is closed."""

from __future__ import annotations

from argparse import Namespace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace_spark import dead_letter, events, kafka
from tailrace_spark.job import Job, Option, Run
from tailrace_spark.stream import frames
from tailrace_spark.stream.stage import COMMON, Stage, to_option, topic_option
from tailrace_spark.windowed import WindowState, newest_us

NAME = "stream aggregate"
WINDOW = Option("--window", "seconds of a window", 300, convert=int)
LATENESS = Option("--lateness", "seconds that an order may be behind the newest", 300, convert=int)


def run(run: Run) -> None:
    """See Stage."""
    options = run.options
    spans = frames.windows(options.window, options.lateness)
    state = WindowState(options.checkpoint, frames.REVENUE)

    def work(batch: DataFrame, number: int) -> str:
        opened = state.before(batch.sparkSession, number)
        orders = events.usable(batch).withColumn("start", spans.start_of(F.col("time")))
        closed_before = spans.is_closed(opened.watermark_us)
        late = orders.where(closed_before).withColumn("reason", F.lit("too late")).select(*events.SOURCE, "reason")
        reasons = dead_letter.write(events.refused(batch).unionByName(late), options, NAME)
        watermark = spans.watermark_us(newest_us(orders), opened.watermark_us)
        sums = spans.fold(opened.sums, frames.sums(orders.where(~closed_before), spans)).persist()
        try:
            closed = sums.where(spans.is_closed(watermark))
            records = frames.as_records(closed, options.to, tuple(frames.REVENUE.names), ("country", "start"))
            kafka.write_batch(records, options)
            state.after(sums.where(~spans.is_closed(watermark)), number, watermark)
            return f"{closed.count():,} rows of closed windows, {dead_letter.told(reasons)}"
        finally:
            sums.unpersist()

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

"""The job `metrics`: a topic of requests to metrics of closed windows, in a Delta table and in a topic."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace_spark import dead_letter, events, kafka
from tailrace_spark.batches import BatchState, newest_us, persisted, run_batches, shown, watermark_us
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, OUTPUT, STREAMING, Job, JobRun, Option
from tailrace_spark.metrics import frames
from tailrace_spark.tables import delta
from tailrace_spark.tables.options import OPTIMIZE_EVERY, is_due
from tailrace_spark.values import whole
from tailrace_spark.windowed import Windows

TOPIC = Option("--topic", "topic of requests, one JSON object each", "requests")
TO = Option("--to", "topic for the metrics", "metrics")
WINDOW = Option("--window", "seconds of a window", 60, convert=whole(1))
LATENESS = Option("--lateness", "seconds that a request may be behind the newest", 60, convert=whole(0))


@dataclass
class MetricBatches:
    """Adds batches to the open windows and writes those that close."""

    options: Any
    spans: Windows
    state: BatchState
    say: Callable[[str], None]

    def take(self, parsed: DataFrame, number: int) -> None:
        """For foreachBatch."""
        with persisted(parsed):
            self._take(parsed, number)
        if is_due(number, self.options.optimize_every):
            delta.optimize(parsed.sparkSession, self.options.output, self.say)

    def _take(self, parsed: DataFrame, number: int) -> None:
        before = self.state.before(parsed.sparkSession, number)
        requests = events.usable(parsed).withColumn("start", self.spans.start_of(F.col("time")))
        closed_before = self.spans.is_closed(before.watermark_us)
        late = requests.where(closed_before).withColumn("reason", F.lit("too late"))
        refused = events.refused(parsed).unionByName(late.select(*events.SOURCE, "reason"))
        reasons = dead_letter.write(refused, self.options, "metrics")
        on_time = requests.where(~closed_before)
        watermark = watermark_us(newest_us(requests), self.spans.lateness_seconds, before.watermark_us)
        sums = self.spans.fold(before.rows, frames.counts(on_time, self.spans))
        with persisted(sums):
            closing = self.spans.is_closed(watermark)
            query = delta.query_id(parsed)
            delta.append(frames.summary(sums.where(closing), self.spans), self.options.output, query, number)
            count = self.publish(parsed.sparkSession, closing & ~closed_before)
            self.state.after(sums.where(~closing), number, watermark)
        self.say(f"metrics batch {number}: {count:,} closed rows, {dead_letter.shown(reasons)}, {shown(watermark)}")

    def publish(self, spark: SparkSession, which: Column) -> int:
        """From the table into the topic: a sketch made again may differ, what is in the table does not."""
        written = delta.read(spark, self.options.output).where(which)
        kafka.write_batch(frames.rows(written, self.options.to), self.options)
        return int(written.count())


def run(run: JobRun) -> None:
    """Until it is stopped, or with --trigger now until the topic is worked off."""
    options = run.options
    spans = frames.windows(options.window, options.lateness)
    batches = MetricBatches(options, spans, BatchState(options.checkpoint, "windows", frames.COUNTS), run.say)
    parsed = frames.parse(kafka.read_stream(run.spark, options, [options.topic]))
    run_batches(run, "metrics", parsed, batches.take)


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.topic, options.to, dead_letter.topic_of(options))


JOB = Job(
    "metrics",
    "Rates, counts and percentiles per window, service and operation, to a Delta table and a topic.",
    (
        BOOTSTRAP,
        TOPIC,
        TO,
        dead_letter.OPTION,
        CHECKPOINT,
        OUTPUT,
        WINDOW,
        LATENESS,
        OPTIMIZE_EVERY,
        *STREAMING,
        KAFKA_OPTION,
    ),
    run,
    needed,
)

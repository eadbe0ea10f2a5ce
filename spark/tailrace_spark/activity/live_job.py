"""`tailrace-spark activity`: sessions as they end, and what they count to, batch by batch.

The activities of open sessions wait in the checkpoint; each batch looks at them again together with what came, by the
same functions that the nightly job uses on a whole day.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tailrace_spark import dead_letter, events, kafka
from tailrace_spark.activity import frames
from tailrace_spark.activity.options import GAP, TOPIC, needed
from tailrace_spark.activity.tables import Tables
from tailrace_spark.files import Files
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, OUTPUT, STREAMING, Job, Option, Run
from tailrace_spark.query import run_to_end
from tailrace_spark.windowed import NEVER, newest_us

LATENESS = Option("--lateness", "seconds that an activity may be behind the newest", 600, convert=int)
KEPT = 2  # open activities of batches before the last one: a batch that runs again needs the one before it


class OpenActivities:
    """The activities of open sessions after each batch, in the checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self.folder = f"{checkpoint.rstrip('/')}/open"

    def before(self, spark: SparkSession, batch: int) -> tuple[DataFrame, int]:
        """As the batch before left them, and its watermark."""
        text = Files(spark, self.folder).read(f"{batch - 1}.json") if batch else None
        if text is None:
            return spark.createDataFrame([], frames.OPEN), NEVER
        return spark.read.schema(frames.OPEN).parquet(f"{self.folder}/{batch - 1}"), json.loads(text)["watermark_us"]

    def after(self, activities: DataFrame, batch: int, watermark_us: int) -> None:
        """Keeps them."""
        activities.coalesce(1).write.mode("overwrite").parquet(f"{self.folder}/{batch}")
        files = Files(activities.sparkSession, self.folder)
        files.write(f"{batch}.json", json.dumps({"watermark_us": watermark_us}))
        for name in (f"{batch - KEPT}.json", f"{batch - KEPT}"):
            files.delete(name)


@dataclass
class Batches:
    """Closes sessions, batch by batch."""

    options: Any
    tables: Tables
    state: OpenActivities
    say: Callable[[str], None]

    def take(self, parsed: DataFrame, number: int) -> None:
        """For foreachBatch."""
        parsed.persist()
        try:
            self._take(parsed, number)
        finally:
            parsed.unpersist()

    def _take(self, parsed: DataFrame, number: int) -> None:
        gap = self.options.gap
        waiting, before_us = self.state.before(parsed.sparkSession, number)
        usable = events.usable(parsed)
        late = usable.where(frames.is_late(before_us)).withColumn("reason", F.lit("too late"))
        refused = events.refused(parsed).unionByName(late.select(*events.SOURCE, "reason"))
        reasons = dead_letter.write(refused, self.options, "activity")
        newest = newest_us(usable)
        watermark_us = before_us if newest is None else max(before_us, newest - self.options.lateness * 1_000_000)
        on_time = usable.where(~frames.is_late(before_us)).select(*waiting.columns)
        together = waiting.unionByName(on_time).persist()
        whole = frames.sessions(together, gap).persist()
        try:
            closed = frames.is_closed(gap, watermark_us)
            counted = self.tables.write(whole.where(closed), f"batch={number}")
            self.state.after(frames.still_open(together, whole.where(~closed)), number, watermark_us)
        finally:
            whole.unpersist()
            together.unpersist()
        told = f"{counted.sessions:,} sessions ended with {counted.activities:,} activities"
        self.say(f"activity batch {number}: {told}, {dead_letter.told(reasons)}")


def start(run: Run) -> StreamingQuery:
    """The query, running."""
    options = run.options
    batches = Batches(options, Tables(options.output, options.topic), OpenActivities(options.checkpoint), run.say)
    parsed = frames.parse(kafka.read_stream(run.spark, options, options.topic))
    writer = parsed.writeStream.queryName("activity").option("checkpointLocation", options.checkpoint)
    return writer.foreachBatch(batches.take).trigger(**kafka.trigger(options.trigger)).start()


def live(run: Run) -> None:
    """Until it is stopped, or with --trigger now until the topics are worked off."""
    run.spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")  # of JSON with a key twice
    run_to_end(run.spark, run.say, lambda: start(run))


JOB = Job(
    "activity",
    "Sessions, top pages and funnels of a website, live: one topic per kind of activity.",
    (BOOTSTRAP, TOPIC, dead_letter.OPTION, OUTPUT, CHECKPOINT, GAP, LATENESS, *STREAMING, KAFKA_OPTION),
    live,
    needed,
)

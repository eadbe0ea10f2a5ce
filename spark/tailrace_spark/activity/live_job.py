"""`tailrace-spark activity`: sessions as they end, and what they count to, batch by batch.

The activities of open sessions wait in the checkpoint; each batch looks at them again together with what came, by the
same functions that the nightly job uses on a whole day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace_spark import dead_letter, events, kafka, values
from tailrace_spark.activity import frames
from tailrace_spark.activity.options import GAP, TOPIC, needed
from tailrace_spark.activity.tables import Tables
from tailrace_spark.batches import BatchState, newest_us, persisted, run_batches, shown, watermark_us
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, OUTPUT, STREAMING, Job, JobRun, Option
from tailrace_spark.tables import delta
from tailrace_spark.tables.options import OPTIMIZE_EVERY, is_due

LATENESS = Option("--lateness", "seconds that an activity may be behind the newest", 600, convert=values.whole(0))


@dataclass
class SessionBatches:
    """Closes sessions, batch by batch."""

    options: Any
    tables: Tables
    state: BatchState
    say: Callable[[str], None]

    def take(self, parsed: DataFrame, number: int) -> None:
        """For foreachBatch."""
        with persisted(parsed):
            self._take(parsed, number)
        if is_due(number, self.options.optimize_every):
            self.tables.optimize(parsed.sparkSession, self.say)

    def _take(self, parsed: DataFrame, number: int) -> None:
        gap = self.options.gap
        before = self.state.before(parsed.sparkSession, number)
        is_late = frames.is_late(before.watermark_us)
        usable = events.usable(parsed)
        late = usable.where(is_late).withColumn("reason", F.lit("too late"))
        refused = events.refused(parsed).unionByName(late.select(*events.SOURCE, "reason"))
        reasons = dead_letter.write(refused, self.options, "activity")
        watermark = watermark_us(newest_us(usable), self.options.lateness, before.watermark_us)
        together = before.rows.unionByName(usable.where(~is_late).select(*before.rows.columns))
        whole = frames.sessions(together, gap)
        with persisted(together, whole):
            closed = frames.is_closed(gap, watermark)
            counted = self.tables.append(whole.where(closed), delta.query_id(parsed), number)
            self.state.after(frames.still_open(together, whole.where(~closed)), number, watermark)
        ended = f"{counted.sessions:,} sessions ended with {counted.activities:,} activities"
        self.say(f"activity batch {number}: {ended}, {dead_letter.shown(reasons)}, {shown(watermark)}")


def live(run: JobRun) -> None:
    """Until it is stopped, or with --trigger now until the topics are worked off."""
    options = run.options
    state = BatchState(options.checkpoint, "open", frames.OPEN)
    batches = SessionBatches(options, Tables(options.output, options.topic), state, run.say)
    parsed = frames.parse(kafka.read_stream(run.spark, options, options.topic))
    run_batches(run, "activity", parsed, batches.take)


JOB = Job(
    "activity",
    "Sessions, top pages and funnels of a website, live: one topic per kind of activity.",
    (BOOTSTRAP, TOPIC, dead_letter.OPTION, OUTPUT, CHECKPOINT, GAP, LATENESS, OPTIMIZE_EVERY, *STREAMING, KAFKA_OPTION),
    live,
    needed,
)

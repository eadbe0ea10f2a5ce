"""The job `logs`: lines of a topic into the table, each once, with its index, compacted as it goes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tailrace_spark import dead_letter, kafka
from tailrace_spark.batches import persisted, run_batches
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, STREAMING, Job, JobRun, Option
from tailrace_spark.logs import parse, store
from tailrace_spark.logs.compact import compact, discard
from tailrace_spark.logs.files import open_files
from tailrace_spark.logs.manifest import Commit
from tailrace_spark.logs.options import OUTPUT
from tailrace_spark.logs.table import Table
from tailrace_spark.values import whole

TOPIC = Option("--topic", "topic with lines; repeatable (default: logs)", (), many=True)
COMPACT_EVERY = Option(
    "--compact-every", "batches between two compactions; 0 leaves it to `logs compact`", 10, convert=whole(0)
)


@dataclass
class LogBatches:
    """Puts batches of parsed lines into the table; a batch that is tried again is put in once."""

    table: Table
    options: Any
    say: Callable[[str], None]

    def take(self, parsed: DataFrame, number: int) -> None:
        """For foreachBatch."""
        query = query_id(parsed)
        if self.table.state().has(query, number):
            self.say(f"logs batch {number}: is in the table already")
            return
        with persisted(parsed):
            self._take(parsed, query, number)
        every = self.options.compact_every
        if every and number % every == every - 1:
            compact(parsed.sparkSession, self.table, self.say)

    def _take(self, parsed: DataFrame, query: str, number: int) -> None:
        reasons = dead_letter.write(parse.malformed(parsed), self.options, "logs")
        lines = parse.lines(parsed)
        rows = lines.count()
        segments = store.write(lines, self.table, rows) if rows else ()
        if self.table.commit(Commit(add=segments, query=query, batch=number)) is None:
            discard(self.table, segments)  # a second driver of the same query was faster
        self.say(f"logs batch {number}: {rows:,} lines into {len(segments)} segments, {dead_letter.told(reasons)}")


def query_id(batch: DataFrame) -> str:
    """Of the checkpoint: the same after a restart."""
    found: str = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return found


def topics(options: Namespace) -> list[str]:
    """Those to read."""
    return list(options.topic) or ["logs"]


def needed(options: Namespace) -> tuple[str, ...]:
    """Those that must exist."""
    options.topic = topics(options)
    return (*options.topic, dead_letter.topic_of(options))


def run(run: JobRun) -> None:
    """Until it is stopped, or with --trigger now until the topic is worked off."""
    options = run.options
    options.topic = topics(options)
    batches = LogBatches(Table(open_files(run.spark, options.output)), options, run.say)
    parsed = parse.parse(kafka.read_stream(run.spark, options, options.topic))
    run_batches(run, "logs", parsed, batches.take)


JOB = Job(
    "logs",
    "Lines of many formats from a topic into Parquet by source and hour, with a search index beside it.",
    (BOOTSTRAP, TOPIC, dead_letter.OPTION, CHECKPOINT, OUTPUT, *STREAMING, COMPACT_EVERY, KAFKA_OPTION),
    run,
    needed,
)

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
from tailrace_spark.logs.options import OUTPUT
from tailrace_spark.tables import delta
from tailrace_spark.tables.options import OPTIMIZE_EVERY, is_due

TOPIC = Option("--topic", "topic with lines; repeatable (default: logs)", (), many=True)


@dataclass
class LogBatches:
    """Puts batches of parsed lines into the table; a batch that is tried again is put in once."""

    tables: store.LogTables
    options: Any
    say: Callable[[str], None]

    def take(self, parsed: DataFrame, number: int) -> None:
        """For foreachBatch."""
        query = delta.query_id(parsed)
        if delta.snapshot(parsed.sparkSession, self.tables.lines).batches.get(query, -1) >= number:
            self.say(f"logs batch {number}: is in the table already")
            return
        with persisted(parsed):
            reasons = dead_letter.write(parse.malformed(parsed), self.options, "logs")
            rows = store.write(parse.lines(parsed), self.tables, query, number)
        self.say(f"logs batch {number}: {rows:,} lines, {dead_letter.shown(reasons)}")
        if is_due(number, self.options.optimize_every):
            self.tables.optimize(parsed.sparkSession, self.say)


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
    tables = store.LogTables(options.output)
    tables.create(run.spark)
    parsed = parse.parse(kafka.read_stream(run.spark, options, options.topic))
    run_batches(run, "logs", parsed, LogBatches(tables, options, run.say).take)


JOB = Job(
    "logs",
    "Lines of many formats from a topic into a Delta table by source and hour, with a search index beside it.",
    (BOOTSTRAP, TOPIC, dead_letter.OPTION, CHECKPOINT, OUTPUT, *STREAMING, OPTIMIZE_EVERY, KAFKA_OPTION),
    run,
    needed,
)

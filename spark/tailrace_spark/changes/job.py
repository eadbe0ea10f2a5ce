"""The job `changes`: Debezium's events of a topic into a Delta table that has the current rows."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace_spark import dead_letter, events, kafka
from tailrace_spark.batches import persisted, run_batches
from tailrace_spark.changes import frames
from tailrace_spark.changes.columns import ChangeColumn, columns_of, union
from tailrace_spark.changes.table import ChangedTable
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, OUTPUT, STREAMING, Job, JobRun, Option
from tailrace_spark.refusal import Refusal
from tailrace_spark.tables import delta
from tailrace_spark.tables.options import OPTIMIZE_EVERY, is_due

OWN = (frames.POSITION, frames.OP)

TOPIC = Option("--topic", "topic of Debezium's events, as JSON", required=True)
KEY = Option("--key", "columns that tell one row from another, separated by commas", required=True)
COLUMNS = Option(
    "--columns", "such as 'id bigint, name string', where events have no schema (default: those of the events' schemas)"
)


@dataclass
class ChangeBatches:
    """Merges batches of events into the table."""

    table: ChangedTable
    options: Any
    say: Callable[[str], None]
    known: tuple[ChangeColumn, ...] = ()  # of the schemas so far; the table has them for the next run

    def take(self, records: DataFrame, number: int) -> None:
        """For foreachBatch."""
        columns = self.columns(records)
        parsed = frames.parse(records, columns, self.table.keys)
        with persisted(parsed):
            reasons = dead_letter.write(events.refused(parsed), self.options, JOB.name)
            tombstones = parsed.where(F.col("value").isNull()).count()
            changes = frames.newest(parsed, self.table.keys)
            with persisted(changes):
                changed = changes.count()
                if changed:
                    self.table.merge(changes)
                    self.table.remember(records.sparkSession, self.known)
        counts = f"events of {changed:,} rows, {tombstones:,} tombstones, {dead_letter.shown(reasons)}"
        self.say(f"changes batch {number}: {counts}")
        if is_due(number, self.options.optimize_every):
            for path in delta.tables_in(records.sparkSession, self.table.folder):
                delta.optimize(records.sparkSession, path, self.say)

    def columns(self, records: DataFrame) -> tuple[ChangeColumn, ...]:
        """Those given, else those of all schemas so far. Raises Refusal."""
        columns = self.described(records)
        for column in columns:
            if column.name.lower() in OWN:
                raise Refusal(f"{column.name} is a column of the job's own; name the other columns by --columns.")
        return columns

    def described(self, records: DataFrame) -> tuple[ChangeColumn, ...]:
        """The same, whatever their names."""
        if self.options.columns:
            given = records.sparkSession.range(0).select(F.from_json(F.lit("{}"), self.options.columns).alias("row"))
            fields = given.schema["row"].dataType.fields
            return tuple(ChangeColumn(each.name, each.dataType.simpleString()) for each in fields)
        found = [columns_of(row.schema) for row in frames.schemas(records).collect()]
        self.known = union([*found, self.known or self.table.remembered(records.sparkSession)])
        if not self.known and not frames.undescribed(records).isEmpty():
            raise Refusal("These events have no schema; name the columns of the table by --columns.")
        return self.known or tuple(ChangeColumn(key, "string") for key in self.table.keys)


def run(run: JobRun) -> None:
    """Until it is stopped, or with --trigger now until the topic is worked off."""
    options = run.options
    keys = tuple(word.strip() for word in options.key.split(",") if word.strip())
    batches = ChangeBatches(ChangedTable(options.output, keys), options, run.say)
    run_batches(run, "changes", kafka.read_stream(run.spark, options, [options.topic]), batches.take)


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.topic, dead_letter.topic_of(options))


JOB = Job(
    "changes",
    "Debezium's change events to a Delta table that has the current rows.",
    (BOOTSTRAP, TOPIC, KEY, COLUMNS, dead_letter.OPTION, CHECKPOINT, OUTPUT, OPTIMIZE_EVERY, *STREAMING, KAFKA_OPTION),
    run,
    needed,
)

"""`tailrace-spark archive`: topics to a Delta table, exactly once, continuously or up to now.

--output gets the table, partitioned by topic and partition, and _topics.json. Retention that deletes records before
they are archived fails the job (--fail-on-data-loss false goes on without them).
"""

from __future__ import annotations

from argparse import Namespace

from pyspark.sql import DataFrame

from tailrace_spark.admin import admin
from tailrace_spark.archive.frames import PARTITIONS, archived
from tailrace_spark.archive.topics import FILE, from_json, merged, to_json
from tailrace_spark.batches import run_batches
from tailrace_spark.files import TextFiles
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, OUTPUT, STREAMING, Job, JobRun, Option
from tailrace_spark.kafka import connection, read_stream
from tailrace_spark.tables import delta
from tailrace_spark.tables.options import OPTIMIZE_EVERY, is_due
from tailrace_spark.values import true_or_false


def names(options: Namespace) -> tuple[str, ...]:
    """The topics asked for."""
    return tuple(word.strip() for word in options.topics.split(",") if word.strip())


def remember_topics(run: JobRun) -> None:
    """Brings _topics.json up to date."""
    files = TextFiles(run.spark, run.options.output)
    with admin(run.spark, connection(run.options)) as client:
        seen = client.describe(list(names(run.options)))
    files.write(FILE, to_json(merged(from_json(files.read(FILE) or "{}"), seen).values()))


def archive(run: JobRun) -> None:
    """Runs until it is stopped, or until the end of now with --trigger now."""
    options = run.options
    remember_topics(run)

    def take(records: DataFrame, number: int) -> None:
        kept = archived(records)
        delta.create(run.spark, options.output, kept.schema, PARTITIONS)
        delta.append(kept, options.output, delta.query_id(records), number)
        if is_due(number, options.optimize_every):
            delta.optimize(run.spark, options.output, run.say)

    records = read_stream(run.spark, options, names(options), failOnDataLoss=options.fail_on_data_loss)
    run_batches(run, "archive", records, take)
    remember_topics(run)  # partitions may have been added meanwhile


JOB = Job(
    "archive",
    "Keeps the committed records of topics in a Delta table: keys, values, headers, timestamps, partitions, offsets.",
    (
        BOOTSTRAP,
        Option("--topics", "topics, separated by commas", required=True),
        OUTPUT,
        CHECKPOINT,
        Option(
            "--fail-on-data-loss",
            "false: go on where retention was faster than this job",
            "true",
            convert=true_or_false,
        ),
        OPTIMIZE_EVERY,
        KAFKA_OPTION,
        *STREAMING,
    ),
    archive,
    topics=names,
)

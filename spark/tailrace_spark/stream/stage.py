"""What the stages share: records in, each once; records out, stamped; the unusable to the dead-letter topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tailrace_spark import kafka, once
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, STREAMING, Option, Run
from tailrace_spark.query import run_to_end

COMMON = (BOOTSTRAP, CHECKPOINT, *STREAMING, KAFKA_OPTION)


def topic_option(default: str) -> Option:
    """What a stage reads."""
    return Option("--topic", "topic to read", default)


def to_option(default: str) -> Option:
    """What a stage writes."""
    return Option("--to", "topic to write", default)


@dataclass(frozen=True)
class Stage:
    """`work` takes a parsed batch and its number, writes what comes of it and returns what to say of it."""

    name: str
    parse: Callable[[DataFrame], DataFrame]
    work: Callable[[DataFrame, int], str]

    def run(self, run: Run) -> None:
        """Until it is stopped, or with --trigger now until the topic is worked off."""
        run.spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")  # of JSON with a key twice
        options = run.options

        def take(batch: DataFrame, number: int) -> None:
            batch.persist()
            try:
                told = self.work(batch, number)
            finally:
                batch.unpersist()
            run.say(f"{self.name} batch {number}: {told}")

        records = once.without_repeats(kafka.read_stream(run.spark, options, [options.topic]))
        writer = self.parse(records).writeStream.queryName(self.name)
        checkpointed = writer.option("checkpointLocation", options.checkpoint).trigger(**kafka.trigger(options.trigger))
        run_to_end(run.spark, run.say, checkpointed.foreachBatch(take).start)

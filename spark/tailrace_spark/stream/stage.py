"""What the stages share: records in, each once; records out, stamped; the unusable to the dead-letter topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tailrace_spark import kafka, once
from tailrace_spark.batches import persisted, run_batches
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, STREAMING, JobRun, Option

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

    def run(self, run: JobRun) -> None:
        """Until it is stopped, or with --trigger now until the topic is worked off."""

        def take(batch: DataFrame, number: int) -> None:
            with persisted(batch):
                told = self.work(batch, number)
            run.say(f"{self.name} batch {number}: {told}")

        records = once.without_repeats(kafka.read_stream(run.spark, run.options, [run.options.topic]))
        run_batches(run, self.name, self.parse(records), take)

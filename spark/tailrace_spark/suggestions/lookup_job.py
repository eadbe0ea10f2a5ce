"""The command `suggestions lookup`: what is similar to a product, by its key in the compacted topic."""

from __future__ import annotations

import json
from argparse import Namespace

from pyspark.sql import functions as F

from tailrace_spark import kafka
from tailrace_spark.job import BOOTSTRAP, KAFKA_OPTION, Job, JobRun, Option
from tailrace_spark.stream.frames import latest
from tailrace_spark.suggestions.job import TO


def run(run: JobRun) -> None:
    """Prints them, the best first."""
    options = run.options
    records = kafka.read_batch(run.spark, options, [options.to])
    found = latest(records.where(F.col("key").cast("string") == options.product)).first()
    if found is None:
        run.say(f"{options.product} has no similar products.")
        return
    for each in json.loads(bytes(found.value))["similar"]:
        run.say(f"{each['score']:.3f} {each['product']}")


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.to,)


JOB = Job(
    "suggestions lookup",
    "What is similar to a product.",
    (Option("product", "its key", required=True), BOOTSTRAP, TO, KAFKA_OPTION),
    run,
    needed,
)

"""From parsed options to a running job: what fails early fails in a sentence."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_spark import preflight
from tailrace_spark.console import say
from tailrace_spark.failure import sentence
from tailrace_spark.job import Job, JobRun
from tailrace_spark.kafka import client_options, connection
from tailrace_spark.refusal import Failed, Refusal
from tailrace_spark.session import open_session


def launch(job: Job, options: Namespace) -> None:
    """Opens a session, runs the job, stops the session. Raises Refusal."""
    client_options(getattr(options, "kafka_option", ()))
    settings = spark_settings(options.conf)
    preflight.require_master(options.master)
    if getattr(options, "bootstrap", None):
        preflight.require_listener(options.bootstrap)
    if not job.needs_session:
        none: Any = None
        job.run(JobRun(none, options, say))
        return
    spark = open_session(
        f"tailrace-spark {job.name}", master=options.master, jars=options.jars, settings=settings, log=options.log
    )
    try:
        run_checked(job, options, spark)
    finally:
        spark.stop()


def run_checked(job: Job, options: Namespace, spark: SparkSession) -> None:
    """Runs the job in a session after the checks that need one. Raises Refusal."""
    if getattr(options, "bootstrap", None):
        preflight.require_topics(spark, connection(options), job.topics(options))
    if getattr(options, "checkpoint", None):
        preflight.claim_checkpoint(spark, options.checkpoint, job.name)
    try:
        job.run(JobRun(spark, options, say))
    except (PySparkException, Py4JJavaError) as error:
        raise Failed(sentence(error, str(options.log))) from error


def spark_settings(pairs: Iterable[str]) -> dict[str, str]:
    """--conf KEY=VALUE. Raises Refusal."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise Refusal(f"--conf {pair!r} is not spark.KEY=VALUE; for example --conf spark.driver.memory=2g.")
        found[key] = value
    return found

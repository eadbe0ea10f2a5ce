"""How many bytes Spark's tasks read, as Spark itself counted them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

VECTORED = "parquet.hadoop.vectored.io.enabled"  # reads of several ranges at once, which Spark does not count


@dataclass
class Bytes:
    """Filled in at the end."""

    value: int = 0


@contextmanager
def bytes_read(spark: SparkSession, group: str) -> Iterator[Bytes]:
    """Counts the jobs that are run inside, by this thread; `group` is a name that no other has."""
    context: Any = spark.sparkContext
    counted = Bytes()
    context.setJobGroup(group, group)
    spark.conf.set(VECTORED, "false")
    try:
        yield counted
    finally:
        spark.conf.unset(VECTORED)
        context.setLocalProperty("spark.jobGroup.id", None)
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            counted.value += scala.statusStore().lastStageAttempt(stage).inputBytes()

"""Queries that work batch by batch: what they keep in memory for a batch, and what they remember from one to the next.

Spark's own state drops what comes behind its watermark and only counts it. Here a batch is split first: what is too
late is the job's to put somewhere. What waits for later batches is a small table in the checkpoint, written once a
batch; a batch that runs again after a crash starts from the same table, so its result is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tailrace_spark import kafka
from tailrace_spark.files import TextFiles
from tailrace_spark.job import JobRun
from tailrace_spark.query import run_to_end

NEVER = -(1 << 62)
KEPT = 2  # states before the last one: a batch that runs again needs the one before it

Take = Callable[[DataFrame, int], None]  # a batch and its number


def run_batches(run: JobRun, name: str, parsed: DataFrame, take: Take) -> None:
    """Until it is stopped, or with --trigger now until the topics are worked off."""
    run.spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")  # of JSON with a key twice
    writer = parsed.writeStream.queryName(name).option("checkpointLocation", run.options.checkpoint)
    run_to_end(run.spark, run.say, writer.foreachBatch(take).trigger(**kafka.trigger(run.options.trigger)).start)


@contextmanager
def persisted(*frames: DataFrame) -> Iterator[None]:
    """Frames that are looked at more than once are computed once."""
    for frame in frames:
        frame.persist()
    try:
        yield
    finally:
        for frame in frames:
            frame.unpersist()


@dataclass(frozen=True)
class Before:
    """What the batches before left: rows that wait, and the watermark."""

    watermark_us: int
    rows: DataFrame


class BatchState:
    """Rows and a watermark in a folder of the checkpoint, by batch."""

    def __init__(self, checkpoint: str, name: str, schema: StructType) -> None:
        self.folder = f"{checkpoint.rstrip('/')}/{name}"
        self.schema = schema

    def before(self, spark: SparkSession, batch: int) -> Before:
        """As the batch before left it."""
        text = TextFiles(spark, self.folder).read(f"{batch - 1}.json") if batch else None
        if text is None:
            return Before(NEVER, nothing(spark, self.schema))
        rows = spark.read.schema(self.schema).parquet(f"{self.folder}/{batch - 1}")
        return Before(json.loads(text)["watermark_us"], rows)

    def after(self, rows: DataFrame, batch: int, watermark_us: int) -> None:
        """Keeps the rows that wait still."""
        rows.coalesce(1).write.mode("overwrite").parquet(f"{self.folder}/{batch}")
        files = TextFiles(rows.sparkSession, self.folder)
        files.write(f"{batch}.json", json.dumps({"watermark_us": watermark_us}))
        for name in (f"{batch - KEPT}.json", f"{batch - KEPT}"):
            files.delete(name)


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows; made in the JVM, as createDataFrame would start a Python worker for it."""
    return spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields))


def newest_us(rows: DataFrame, time: str = "time") -> int | None:
    """The newest time in a batch, microseconds since 1970; None for an empty one."""
    found: Sequence[int | None] = rows.agg(F.unix_micros(F.max(time))).first() or (None,)
    return found[0]


def watermark_us(newest_us: int | None, lateness_seconds: int, before_us: int) -> int:
    """After rows whose newest time is that; it never goes back."""
    return before_us if newest_us is None else max(before_us, newest_us - lateness_seconds * 1_000_000)


def shown(watermark_us: int) -> str:
    """For the console."""
    if watermark_us == NEVER:
        return "no watermark yet"
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=watermark_us)
    except OverflowError:  # a producer may stamp its records with any year
        return f"watermark {watermark_us} us"
    return f"watermark {at:%Y-%m-%dT%H:%M:%SZ}"

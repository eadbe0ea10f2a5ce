"""Sums over windows of event time, whose late records are handed back instead of dropped.

Spark's own windowed aggregation drops what comes behind its watermark and only counts it. Here the batch is split
first: what belongs to a window that is closed already is the caller's to put somewhere. The sums of the open windows
are a small table in the checkpoint, written once a batch; a batch that runs again after a crash starts from the same
table, so its result is the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tailrace_spark.files import Files

NEVER = -(1 << 62)
KEPT = 2  # states before the last one: a batch that runs again needs the one before it


@dataclass(frozen=True)
class Windows:
    """Rows are summed by `keys`, the first of them `start` (start_of): `sums` are added up, `maxima` the greatest."""

    seconds: int
    lateness_seconds: int
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...] = ()

    def start_of(self, time: Column) -> Column:
        """The window that a time is in, by its start."""
        return F.window(time, f"{self.seconds} seconds").getField("start")

    def is_closed(self, watermark_us: int) -> Column:
        """True for rows whose window ends at the watermark or before."""
        return F.unix_micros("start") + self.seconds * 1_000_000 <= watermark_us

    def fold(self, *frames: DataFrame) -> DataFrame:
        """One row a key, of partial sums."""
        whole = reduce(DataFrame.unionByName, (frame.select(*self.keys, *self.sums, *self.maxima) for frame in frames))
        sums = [F.sum(name).alias(name) for name in self.sums]
        return whole.groupBy(*self.keys).agg(*sums, *(F.max(name).alias(name) for name in self.maxima))

    def watermark_us(self, newest_us: int | None, before_us: int) -> int:
        """After rows whose newest time is that; it never goes back."""
        return before_us if newest_us is None else max(before_us, newest_us - self.lateness_seconds * 1_000_000)


@dataclass(frozen=True)
class Opened:
    """What is known before a batch."""

    watermark_us: int
    sums: DataFrame


class WindowState:
    """The sums of the open windows in a checkpoint, by batch."""

    def __init__(self, folder: str, schema: StructType) -> None:
        self.folder = folder.rstrip("/") + "/windows"
        self.schema = schema

    def before(self, spark: SparkSession, batch: int) -> Opened:
        """As the batch before left it."""
        text = Files(spark, self.folder).read(f"{batch - 1}.json") if batch else None
        if text is None:
            return Opened(NEVER, nothing(spark, self.schema))
        sums = spark.read.schema(self.schema).parquet(f"{self.folder}/{batch - 1}")
        return Opened(json.loads(text)["watermark_us"], sums)

    def after(self, sums: DataFrame, batch: int, watermark_us: int) -> None:
        """Keeps it; `sums` are of windows that are open still."""
        sums.coalesce(1).write.mode("overwrite").parquet(f"{self.folder}/{batch}")
        Files(sums.sparkSession, self.folder).write(f"{batch}.json", json.dumps({"watermark_us": watermark_us}))
        self._forget(sums.sparkSession, batch - KEPT)

    def _forget(self, spark: SparkSession, batch: int) -> None:
        files = Files(spark, self.folder)
        for name in (f"{batch}.json", f"{batch}"):
            files.delete(name)


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows; made in the JVM, as createDataFrame would start a Python worker for it."""
    return spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields))


def newest_us(rows: DataFrame, time: str = "time") -> int | None:
    """The newest time in a batch, microseconds since 1970; None for an empty one."""
    found: Sequence[int | None] = rows.agg(F.unix_micros(F.max(time))).first() or (None,)
    return found[0]

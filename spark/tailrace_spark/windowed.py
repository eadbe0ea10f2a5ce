"""Sums over windows of event time. Pure; what is kept of open windows between batches is batches.BatchState's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True)
class Windows:
    """Rows are summed by `keys`, the first of them `start` (start_of): `sums` are added up, `maxima` the greatest.

    `sketches` are merged: Spark's KLL sketches of doubles.
    """

    seconds: int
    lateness_seconds: int
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...] = ()
    sketches: tuple[str, ...] = ()

    def start_of(self, time: Column) -> Column:
        """The window that a time is in, by its start."""
        return F.window(time, f"{self.seconds} seconds").getField("start")

    def is_closed(self, watermark_us: int) -> Column:
        """True for rows whose window ends at the watermark or before; of a Delta table only such files are read."""
        return F.col("start") <= F.timestamp_micros(F.lit(watermark_us - self.seconds * 1_000_000))

    def fold(self, *frames: DataFrame) -> DataFrame:
        """One row a key, of partial sums."""
        names = (*self.keys, *self.sums, *self.maxima, *self.sketches)
        whole = reduce(DataFrame.unionByName, (frame.select(*names) for frame in frames))
        return whole.groupBy(*self.keys).agg(
            *(F.sum(name).alias(name) for name in self.sums),
            *(F.max(name).alias(name) for name in self.maxima),
            *(F.kll_merge_agg_double(name).alias(name) for name in self.sketches),
        )

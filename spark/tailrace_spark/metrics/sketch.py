"""Percentiles of durations from counts in buckets whose edges grow by a fixed factor (DDSketch).

Every duration from MIN_MS up is within ERROR of its bucket's value, so a percentile is within ERROR (1 %) of the exact
one, whatever the distribution and however sums were merged; shorter ones count as 0. The exact one is the nearest rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

ERROR = 0.01
MIN_MS = 0.001
FACTOR = (1 + ERROR) / (1 - ERROR)
ZERO = -(1 << 20)  # the bucket of what is shorter


def bucket(milliseconds: Column) -> Column:
    """The bucket of a duration."""
    number = F.ceil(F.log(milliseconds) / math.log(FACTOR)).cast("int")
    return F.when(milliseconds < MIN_MS, F.lit(ZERO)).otherwise(number)


def value(number: Column) -> Column:
    """What a bucket stands for, in milliseconds."""
    return F.when(number == ZERO, 0.0).otherwise(2 * F.pow(F.lit(FACTOR), number) / (FACTOR + 1))


def percentiles(counts: DataFrame, keys: list[str], wanted: Mapping[str, float]) -> DataFrame:
    """One row a key of counts by (keys, bucket, requests), with a column for each percentile (name: 0 to 1)."""
    group = Window.partitionBy(*keys)
    ranked = counts.withColumn(
        "_up_to", F.sum("requests").over(group.orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0))
    ).withColumn("_total", F.sum("requests").over(group))
    columns = []
    for name, share in wanted.items():
        reached = F.col("_up_to") >= F.greatest(F.lit(1), F.ceil(F.col("_total") * share))
        columns.append(value(F.min(F.when(reached, F.col("bucket")))).alias(name))
    return ranked.groupBy(*keys).agg(*columns)

"""Requests to partial counts, and the counts of closed windows to metrics."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tailrace_spark import events
from tailrace_spark.events import always
from tailrace_spark.metrics import sketch
from tailrace_spark.windowed import Windows

REQUEST = {"time": "timestamp", "service": "string", "operation": "string", "duration_ms": "double", "status": "int"}
REQUIRED = ("time", "service", "operation", "duration_ms")
KEYS = ("start", "service", "operation")
PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
COUNTS = StructType(
    [
        StructField("start", TimestampType()),
        StructField("service", StringType()),
        StructField("operation", StringType()),
        StructField("bucket", IntegerType()),
        StructField("requests", LongType()),
        StructField("errors", LongType()),
        StructField("total_ms", DoubleType()),
        StructField("max_ms", DoubleType()),
    ]
)


def windows(seconds: int, lateness_seconds: int) -> Windows:
    """How counts are added up."""
    return Windows(seconds, lateness_seconds, (*KEYS, "bucket"), ("requests", "errors", "total_ms"), ("max_ms",))


def parse(records: DataFrame) -> DataFrame:
    """Records with the fields of a request and `reason`."""
    parsed = events.parse(records, REQUEST, REQUIRED)
    odd = (F.col("duration_ms") < 0) | F.isnan("duration_ms") | (F.col("duration_ms") == float("inf"))
    reason = F.coalesce(F.col("reason"), F.when(odd, "duration_ms is no duration"))
    return parsed.withColumn("reason", always(reason))


def counts(requests: DataFrame, spans: Windows) -> DataFrame:
    """Partial counts, one row a request; statuses from 500 on are errors."""
    return requests.select(
        spans.start_of(F.col("time")).alias("start"),
        "service",
        "operation",
        sketch.bucket(F.col("duration_ms")).alias("bucket"),
        F.lit(1).cast("long").alias("requests"),
        F.when(F.col("status") >= 500, 1).otherwise(0).cast("long").alias("errors"),
        F.col("duration_ms").alias("total_ms"),
        F.col("duration_ms").alias("max_ms"),
    )


def summary(closed: DataFrame, spans: Windows) -> DataFrame:
    """One row a window, service and operation."""
    keys = list(KEYS)
    sums = closed.groupBy(*keys).agg(
        F.sum("requests").alias("requests"),
        F.sum("errors").alias("errors"),
        (F.sum("requests") / spans.seconds).alias("per_second"),
        (F.sum("total_ms") / F.sum("requests")).alias("mean_ms"),
        F.max("max_ms").alias("max_ms"),
    )
    with_percentiles = sums.join(sketch.percentiles(closed, keys, PERCENTILES), keys)
    return with_percentiles.withColumn("seconds", F.lit(spans.seconds))


def rows(metrics: DataFrame, topic: str) -> DataFrame:
    """For the sink: JSON, keyed by service, operation and window, so that a compacted topic keeps each once."""
    start = F.date_format("start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    key = F.concat_ws("/", "service", "operation", start)
    value = F.to_json(F.struct(start.alias("start"), *(F.col(name) for name in metrics.columns if name != "start")))
    return metrics.select(
        F.lit(topic).alias("topic"), F.encode(key, "UTF-8").alias("key"), F.encode(value, "UTF-8").alias("value")
    )

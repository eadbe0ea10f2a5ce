"""Requests to partial counts, and the counts of closed windows to metrics."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tailrace_spark import events
from tailrace_spark.events import always
from tailrace_spark.windowed import Windows

REQUEST = {"time": "timestamp", "service": "string", "operation": "string", "duration_ms": "double", "status": "int"}
REQUIRED = ("time", "service", "operation", "duration_ms")
KEYS = ("start", "service", "operation")
PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
SKETCH_K = 2000  # Spark's KLL sketch is exact up to so many requests
RANK_ERROR = 0.0015  # above that: of the rank, with 99 % confidence (2.296 / k ** 0.9723)
COUNTS = StructType(
    [
        StructField("start", TimestampType()),
        StructField("service", StringType()),
        StructField("operation", StringType()),
        StructField("requests", LongType()),
        StructField("errors", LongType()),
        StructField("total_ms", DoubleType()),
        StructField("max_ms", DoubleType()),
        StructField("durations", BinaryType()),
    ]
)


def windows(seconds: int, lateness_seconds: int) -> Windows:
    """How counts are added up."""
    return Windows(seconds, lateness_seconds, KEYS, ("requests", "errors", "total_ms"), ("max_ms",), ("durations",))


def parse(records: DataFrame) -> DataFrame:
    """Records with the fields of a request and `reason`."""
    parsed = events.parse(records, REQUEST, REQUIRED)
    odd = (F.col("duration_ms") < 0) | F.isnan("duration_ms") | (F.col("duration_ms") == float("inf"))
    reason = F.coalesce(F.col("reason"), F.when(odd, "duration_ms is no duration"))
    return parsed.withColumn("reason", always(reason))


def counts(requests: DataFrame, spans: Windows) -> DataFrame:
    """Counts and a sketch of durations, one row a window, service and operation; errors have a status from 500 on."""
    started = requests.withColumn("start", spans.start_of(F.col("time")))
    return started.groupBy(*KEYS).agg(
        F.count("*").alias("requests"),
        F.count_if(F.col("status") >= 500).alias("errors"),
        F.sum("duration_ms").alias("total_ms"),
        F.max("duration_ms").alias("max_ms"),
        F.kll_sketch_agg_double("duration_ms", SKETCH_K).alias("durations"),
    )


def summary(closed: DataFrame, spans: Windows) -> DataFrame:
    """One row a window, service and operation."""
    return closed.select(
        *KEYS,
        "requests",
        "errors",
        (F.col("requests") / spans.seconds).alias("per_second"),
        (F.col("total_ms") / F.col("requests")).alias("mean_ms"),
        "max_ms",
        *(
            F.kll_sketch_get_quantile_double("durations", F.lit(share)).alias(name)
            for name, share in PERCENTILES.items()
        ),
        F.lit(spans.seconds).alias("seconds"),
    )


def rows(metrics: DataFrame, topic: str) -> DataFrame:
    """For the sink: JSON, keyed by service, operation and window, so that a compacted topic keeps each once."""
    start = F.date_format("start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    key = F.concat_ws("/", "service", "operation", start)
    value = F.to_json(F.struct(start.alias("start"), *(F.col(name) for name in metrics.columns if name != "start")))
    return metrics.select(
        F.lit(topic).alias("topic"), F.encode(key, "UTF-8").alias("key"), F.encode(value, "UTF-8").alias("value")
    )

"""Records as Spark's Kafka connector gives them, as static frames for tests of pure functions."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ARRIVED = datetime(2026, 11, 21, 16, 30, tzinfo=UTC)
ENCODED = """array<struct<key: string, value: string, topic: string, partition: int, offset: bigint, us: bigint,
    headers: array<struct<key: string, value: string>>>>"""
SINCE = datetime(1970, 1, 1, tzinfo=UTC)


def frame(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: str) -> DataFrame:
    """A static frame, made in the JVM: createDataFrame starts Python workers. `schema` is array<struct<...>>."""
    # Not by spark.sql with a parameter: the SQL parser of Delta 4.4 loses it.
    return spark.range(1).select(F.inline(F.from_json(F.lit(json.dumps(list(rows))), schema)))


def record(
    offset: int,
    value: bytes | str | None,
    *,
    key: bytes | str | None = None,
    topic: str = "logs",
    partition: int = 0,
    timestamp: datetime = ARRIVED,
    headers: Mapping[str, bytes] | None = None,
) -> dict[str, Any]:
    """One row for `records`."""
    pairs = [{"key": name, "value": encoded(text)} for name, text in headers.items()] if headers else None
    where = {"topic": topic, "partition": partition, "offset": offset, "headers": pairs}
    return {
        "key": encoded(key),
        "value": encoded(value),
        "us": (timestamp - SINCE) // timedelta(microseconds=1),
        **where,
    }


def encoded(value: bytes | str | None) -> str | None:
    """For JSON, which has no bytes."""
    return None if value is None else base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def records(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The rows as the connector would give them."""
    headers = F.transform(
        "headers", lambda each: F.struct(each.key.alias("key"), F.unbase64(each.value).alias("value"))
    )
    return frame(spark, rows, ENCODED).select(
        F.unbase64("key").alias("key"),
        F.unbase64("value").alias("value"),
        "topic",
        "partition",
        "offset",
        F.timestamp_micros("us").alias("timestamp"),
        F.lit(0).alias("timestampType"),
        headers.alias("headers"),
    )


def of_lines(spark: SparkSession, values: Iterable[bytes | str | None]) -> DataFrame:
    """One record a value, offsets from 0."""
    return records(spark, (record(offset, value) for offset, value in enumerate(values)))


def plan_of(frame: DataFrame) -> str:
    """What Spark will do, after its optimizer."""
    planned: Any = frame
    return str(planned._jdf.queryExecution().optimizedPlan().toString())

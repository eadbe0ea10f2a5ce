"""Records as Spark's Kafka connector gives them, as static frames for tests of pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

ARRIVED = datetime(2026, 11, 21, 16, 30, tzinfo=UTC)
SCHEMA = """key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int, headers array<struct<key: string, value: binary>>"""


def record(
    offset: int,
    value: bytes | str | None,
    *,
    key: bytes | str | None = None,
    topic: str = "logs",
    partition: int = 0,
    timestamp: datetime = ARRIVED,
    headers: Mapping[str, bytes] | None = None,
) -> tuple[Any, ...]:
    """One row of SCHEMA."""
    pairs = list(headers.items()) if headers else None
    return (as_bytes(key), as_bytes(value), topic, partition, offset, timestamp, 0, pairs)


def as_bytes(value: bytes | str | None) -> bytearray | None:
    """What py4j makes a binary of."""
    return None if value is None else bytearray(value.encode() if isinstance(value, str) else value)


def records(spark: SparkSession, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """The rows as the connector would give them."""
    return spark.createDataFrame(list(rows), SCHEMA)


def of_lines(spark: SparkSession, values: Iterable[bytes | str | None]) -> DataFrame:
    """One record a value, offsets from 0."""
    return records(spark, (record(offset, value) for offset, value in enumerate(values)))

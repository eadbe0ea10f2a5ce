"""JSON events to columns, and the reasons why some are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SOURCE = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
EARLY = "5 minutes"  # an event may be this much ahead of its record: clocks differ


def parse(records: DataFrame, fields: Mapping[str, str], required: Sequence[str]) -> DataFrame:
    """Records of the connector with the fields of their JSON (name: SQL type, `time` among them) and `reason`.

    `reason` says why the event cannot be used and is null where it can. Times are ISO 8601.
    """
    text = F.col("value").cast("string")
    json = records.withColumn("json", F.from_json(text, "map<string,string>"))
    said = json.select("*", *(F.try_element_at("json", F.lit(name)).alias(f"said_{name}") for name in fields))
    typed = said.select("*", *(typed_as(F.col(f"said_{name}"), kind).alias(name) for name, kind in fields.items()))
    return typed.withColumn("reason", why(fields, required)).select(*SOURCE, *fields, "reason")


def typed_as(text: Column, kind: str) -> Column:
    """Null where the text is no such value."""
    return F.try_to_timestamp(text) if kind == "timestamp" else text.try_cast(kind)


def why(fields: Mapping[str, str], required: Sequence[str]) -> Column:
    """The first reason that holds."""
    reason = F.when(F.coalesce(F.length("value"), F.lit(0)) == 0, "empty").when(F.col("json").isNull(), "not JSON")
    for name in fields:
        if name in required:
            reason = reason.when(F.col(f"said_{name}").isNull(), f"no {name}")
        unread = F.col(f"said_{name}").isNotNull() & F.col(name).isNull()
        reason = reason.when(unread, f"{name} is no {fields[name]}")
    if "time" in fields:
        reason = reason.when(F.col("time") > F.col("timestamp") + F.expr(f"interval {EARLY}"), "from the future")
    return always(reason)


def always(column: Column) -> Column:
    """The same, which Spark does not know: it would push a filter on it through every step and compute all again.

    rand() >= 0 would not do: Spark knows that it holds (OptimizeRand).
    """
    return F.when(F.spark_partition_id() >= 0, column)


def refused(parsed: DataFrame) -> DataFrame:
    """Records that have a reason, for dead_letter.write."""
    return parsed.where(F.col("reason").isNotNull()).select(*SOURCE, "reason")


def usable(parsed: DataFrame) -> DataFrame:
    """Those that have none."""
    return parsed.where(F.col("reason").isNull()).drop("reason")

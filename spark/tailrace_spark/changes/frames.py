"""Debezium's events as frames: what an event says, the reasons why some say nothing, and the last one of each row."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tailrace_spark.changes.columns import ChangeColumn, quoted
from tailrace_spark.events import SOURCE, always

APPLIED = ("c", "r", "u", "d")  # create, read by a snapshot, update, delete
# Where the event is in the source's own log, by connector: PostgreSQL, Oracle, MySQL, SQL Server. Numbers are padded,
# so that positions compare as text.
PLACES = (("lsn", 20), ("scn", 20), ("file", 0), ("pos", 20), ("row", 10), ("commit_lsn", 0), ("change_lsn", 0))
POSITION, OP = "_position", "_op"
KEPT = (POSITION, OP)


def payload(text: Column) -> Column:
    """The event itself, with a schema beside it or without."""
    return F.coalesce(F.get_json_object(text, "$.payload"), text)


def schemas(records: DataFrame) -> DataFrame:
    """The newest `schema` of these events: one row, or none."""
    found = F.get_json_object(F.col("value").cast("string"), "$.schema").alias("schema")
    return records.select(found, "offset").where("schema is not null").orderBy(F.desc("offset")).limit(1)


def position() -> Column:
    """Later in the source is greater; empty where the source says nothing."""
    parts = []
    for name, digits in PLACES:
        said = F.coalesce(F.try_element_at("event.source", F.lit(name)), F.lit(""))
        parts.append(F.when(said == "", "").otherwise(F.lpad(said, digits, "0")) if digits else said)
    return F.concat_ws("/", *parts)


def parse(records: DataFrame, columns: Sequence[ChangeColumn], keys: Sequence[str]) -> DataFrame:
    """Records with the columns, `_op`, `_position` and `reason`; a tombstone has neither an op nor a reason."""
    row = ", ".join(f"{quoted(column.name)}: {column.said}" for column in columns)
    shape = f"op: string, before: struct<{row}>, after: struct<{row}>, source: map<string,string>, broken: string"
    text = payload(F.col("value").cast("string"))
    event = F.from_json(text, f"struct<{shape}>", {"columnNameOfCorruptRecord": "broken"})
    read = records.withColumn("event", event)
    now = read.withColumn("row", F.coalesce(F.when(F.col("event.op") != "d", F.col("event.after")), "event.before"))
    values = (F.expr(column.value("row")).alias(column.name) for column in columns)
    said = now.select(*SOURCE, "event", *values, position().alias(POSITION), F.col("event.op").alias(OP))
    return said.withColumn("reason", why(keys)).drop("event")


def why(keys: Sequence[str]) -> Column:
    """The first reason that holds."""
    no_key = F.lit(False)
    for key in keys:
        no_key = no_key | F.col(quoted(key)).isNull()
    reason = (
        F.when(F.col("value").isNull(), None)
        .when(F.get_json_object(F.col("value").cast("string"), "$").isNull(), "not JSON")
        .when(F.col("event.broken").isNotNull(), "does not fit the columns")
        .when(F.col(OP).isNull(), "no op")
        .when(~F.col(OP).isin(*APPLIED), F.concat(F.lit("op "), F.col(OP), F.lit(" is not applied")))
        .when(no_key, "no key")
    )
    return always(reason)


def newest(parsed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The last event of each row: by its position in the source, then by its place in the topic."""
    usable = parsed.where(F.col("reason").isNull() & F.col(OP).isNotNull())
    names = [quoted(name) for name in parsed.columns if name not in (*SOURCE, "reason")]
    last = F.max_by(F.struct(*names), F.struct(POSITION, "partition", "offset")).alias("last")
    return usable.groupBy(*(quoted(key) for key in keys)).agg(last).select("last.*")

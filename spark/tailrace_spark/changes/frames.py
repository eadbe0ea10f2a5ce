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
MOST_SCHEMAS = 1_000  # of one batch


def payload(text: Column) -> Column:
    """The event itself, with a schema beside it or without."""
    return F.coalesce(F.get_json_object(text, "$.payload"), text)


def schemas(records: DataFrame) -> DataFrame:
    """The different `schema`s of these events, the newest first."""
    found = F.get_json_object(F.col("value").cast("string"), "$.schema").alias("schema")
    last = (
        records.select(found, "offset").where("schema is not null").groupBy("schema").agg(F.max("offset").alias("at"))
    )
    return last.orderBy(F.desc("at")).limit(MOST_SCHEMAS).select("schema")


def undescribed(records: DataFrame) -> DataFrame:
    """The events that only given columns can make use of."""
    return records.where(F.get_json_object(payload(F.col("value").cast("string")), "$.op").isNotNull())


def position() -> Column:
    """Later in the source is greater; empty where the source says nothing."""
    parts = []
    for name, digits in PLACES:
        said = F.coalesce(F.try_element_at("event.source", F.lit(name)), F.lit(""))
        parts.append(F.when(said == "", "").otherwise(F.lpad(said, digits, "0")) if digits else said)
    return F.concat_ws("/", *parts)


def parse(records: DataFrame, columns: Sequence[ChangeColumn], keys: Sequence[str]) -> DataFrame:
    """Records with `row`, `_op`, `_position` and `reason`; a tombstone has neither an op nor a reason."""
    said = ", ".join(f"{quoted(column.name)}: {column.said}" for column in columns)
    shape = f"op: string, before: struct<{said}>, after: struct<{said}>, source: map<string,string>, broken: string"
    text = payload(F.col("value").cast("string"))
    event = F.from_json(text, f"struct<{shape}>", {"columnNameOfCorruptRecord": "broken"})
    read = records.withColumn("event", event)
    now = read.withColumn("said", F.coalesce(F.when(F.col("event.op") != "d", F.col("event.after")), "event.before"))
    row = F.struct(*(F.expr(column.value("said")).alias(column.name) for column in columns))
    made = now.select(
        *SOURCE, "event", "said", row.alias("row"), position().alias(POSITION), F.col("event.op").alias(OP)
    )
    return made.withColumn("reason", why(columns, keys)).drop("event", "said")


def why(columns: Sequence[ChangeColumn], keys: Sequence[str]) -> Column:
    """The first reason that holds."""
    unfit = F.col("event.broken").isNotNull()
    for name in (quoted(column.name) for column in columns):
        unfit = unfit | (F.col(f"said.{name}").isNotNull() & F.col(f"row.{name}").isNull())
    no_key = F.lit(False)
    for key in keys:
        no_key = no_key | F.col(f"row.{quoted(key)}").isNull()
    reason = (
        F.when(F.col("value").isNull(), None)
        .when(F.get_json_object(F.col("value").cast("string"), "$").isNull(), "not JSON")
        .when(unfit, "does not fit the columns")
        .when(F.col(OP).isNull(), "no op")
        .when(~F.col(OP).isin(*APPLIED), F.concat(F.lit("op "), F.col(OP), F.lit(" is not applied")))
        .when(no_key, "no key")
    )
    return always(reason)


def newest(parsed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The last event of each row: by its position in the source, then by its place in the topic."""
    usable = parsed.where(F.col("reason").isNull() & F.col(OP).isNotNull())
    last = F.max_by(F.struct("row", POSITION, OP), F.struct(POSITION, "partition", "offset")).alias("last")
    found = usable.groupBy(*(F.col(f"row.{quoted(key)}") for key in keys)).agg(last)
    return found.select("last.row.*", f"last.{POSITION}", f"last.{OP}")

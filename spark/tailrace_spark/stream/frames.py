"""Orders through the stages."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

from tailrace_spark import events
from tailrace_spark.events import always
from tailrace_spark.windowed import Windows

ORDER = {
    "id": "string",
    "time": "timestamp",
    "customer": "string",
    "product": "string",
    "quantity": "int",
    "price": "double",
}
CUSTOMER = "struct<country: string, tier: string>"
ENRICHED = {**ORDER, "country": "string", "tier": "string"}
REVENUE = StructType(
    [
        StructField("start", TimestampType()),
        StructField("country", StringType()),
        StructField("orders", LongType()),
        StructField("revenue", DoubleType()),
    ]
)


def orders(records: DataFrame) -> DataFrame:
    """Records with the fields of an order and `reason`."""
    parsed = events.parse(records, ORDER, tuple(ORDER))
    odd = F.when(F.col("quantity") <= 0, "quantity is not above 0").when(F.col("price") < 0, "price is below 0")
    return parsed.withColumn("reason", always(F.coalesce(F.col("reason"), odd)))


def latest(records: DataFrame) -> DataFrame:
    """A compacted topic as a table: (key, value) of the newest record of each key; a tombstone takes its key away."""
    newest = F.max_by(F.struct("value"), F.struct("timestamp", "offset"))
    table = records.where(F.col("key").isNotNull()).groupBy("key").agg(newest.alias("newest"))
    return table.select("key", F.col("newest.value").alias("value")).where(F.col("value").isNotNull())


def customers(records: DataFrame) -> DataFrame:
    """(customer, country, tier) of a compacted topic keyed by customer."""
    value = F.from_json(F.col("value").cast("string"), CUSTOMER).alias("customer_is")
    table = latest(records).select(F.col("key").cast("string").alias("customer"), value)
    return table.select("customer", "customer_is.country", "customer_is.tier").where(F.col("country").isNotNull())


def enriched(parsed: DataFrame, table: DataFrame) -> DataFrame:
    """Orders with their customer's columns; those of a customer that the table lacks get a reason."""
    joined = parsed.join(F.broadcast(table), "customer", "left")
    unknown = F.when(F.col("country").isNull(), "no such customer")
    return joined.withColumn("reason", always(F.coalesce(F.col("reason"), unknown)))


def known(records: DataFrame) -> DataFrame:
    """Enriched records with their fields and `reason`."""
    return events.parse(records, ENRICHED, ("id", "time", "quantity", "price", "country"))


def sums(parsed: DataFrame, spans: Windows) -> DataFrame:
    """Partial sums, one row an order."""
    return parsed.select(
        spans.start_of(F.col("time")).alias("start"),
        "country",
        F.lit(1).cast("long").alias("orders"),
        (F.col("quantity") * F.col("price")).alias("revenue"),
    )


def windows(seconds: int, lateness_seconds: int) -> Windows:
    """How revenue is added up."""
    return Windows(seconds, lateness_seconds, ("start", "country"), ("orders", "revenue"))


def as_records(rows: DataFrame, topic: str, fields: tuple[str, ...], key: tuple[str, ...]) -> DataFrame:
    """For the sink: JSON of the fields, keyed by those of `key`; headers as they are, if there are any."""
    iso = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
    times = [name for name, kind in rows.dtypes if kind == "timestamp"]
    text = {name: F.date_format(name, iso).alias(name) if name in times else F.col(name) for name in fields}
    value = F.to_json(F.struct(*text.values()))
    name = F.concat_ws("/", *(text[each] for each in key))
    headers = ["headers"] if "headers" in rows.columns else []
    return rows.select(
        F.lit(topic).alias("topic"),
        F.encode(name, "UTF-8").alias("key"),
        F.encode(value, "UTF-8").alias("value"),
        *headers,
    )

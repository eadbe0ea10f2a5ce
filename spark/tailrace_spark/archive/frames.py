"""The archive as frames: what is written, and the order in which it is read back."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PARTITIONS = ("topic", "partition")


def archived(records: DataFrame) -> DataFrame:
    """Records of the connector, read with includeHeaders, as they are kept."""
    return records.select("offset", "timestamp", "timestampType", "key", "value", "headers", *PARTITIONS)


def in_order(archive: DataFrame, tasks: int) -> DataFrame:
    """The archive with each partition whole in one task, by offset; timestamp_ms as Kafka counts it."""
    counted = archive.withColumn("timestamp_ms", F.unix_millis("timestamp"))
    return counted.repartition(tasks, *PARTITIONS).sortWithinPartitions(*PARTITIONS, "offset")


def only(archive: DataFrame, topics: tuple[str, ...]) -> DataFrame:
    """The records of these topics; of all where none is named."""
    return archive.where(F.col("topic").isin(*topics)) if topics else archive

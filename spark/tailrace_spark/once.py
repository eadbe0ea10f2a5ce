"""Each record once through a chain of topics: the sink repeats a batch after a crash, the reader drops the repeats.

Spark's Kafka sink is at-least-once: a batch that was being written when its driver died is written again, whole. So the
writer puts into the headers of every record which record of which topic it was made from, by which query, and the
reader keeps the first of each. A record that was stamped upstream keeps that identity through further stages, so the
chain is right even where a repeat is dropped differently by a batch that runs again.

One record out for each record in, or fewer: where one becomes several, number them with `part`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

QUERY, TOPIC, PARTITION, OFFSET = "tailrace.query", "tailrace.topic", "tailrace.partition", "tailrace.offset"
NAMES = (QUERY, TOPIC, PARTITION, OFFSET)
_HEADERS = "array<struct<key: string, value: binary>>"
_KEY, _SEEN = "_once_key", "_once_seen"


def header(name: str, headers: str = "headers") -> Column:
    """The text of the first header of that name; null where there is none."""
    found = F.filter(F.col(headers), lambda each: each["key"] == name)
    return F.get(found, 0)["value"].cast("string")


def stamped(records: DataFrame, query: str, part: Column | None = None) -> DataFrame:
    """Records of the connector (topic, partition, offset, headers) with their identity in the headers.

    `query` names the writing query for good: a new checkpoint under the old name repeats nothing downstream.
    Stamp first, then replace key and value; write with includeHeaders.
    """
    upstream = header(QUERY)
    offset = F.coalesce(header(OFFSET), F.col("offset").cast("string"))
    identity = {
        QUERY: F.concat(F.lit(query), F.coalesce(F.concat(F.lit("<"), upstream), F.lit(""))),
        TOPIC: F.coalesce(header(TOPIC), F.col("topic")),
        PARTITION: F.coalesce(header(PARTITION), F.col("partition").cast("string")),
        OFFSET: offset if part is None else F.concat(offset, F.lit("/"), part.cast("string")),
    }
    kept = F.filter(F.coalesce(F.col("headers"), F.array().cast(_HEADERS)), lambda each: ~each["key"].isin(*NAMES))
    stamps = [
        F.struct(F.lit(name).alias("key"), F.encode(text, "UTF-8").alias("value")) for name, text in identity.items()
    ]
    return records.withColumn("headers", F.concat(kept, F.array(*stamps).cast(_HEADERS)))


def without_repeats(records: DataFrame, within: str | None = "7 days") -> DataFrame:
    """The first of each stamped record, and every record that is not stamped; read with includeHeaders.

    A stream remembers an identity for so long after it was first read (a restart of the writer within that time
    repeats nothing); None remembers all for good. It never drops a first record, however late. A batch looks at
    everything it reads.
    """
    own = F.concat_ws("\x00", F.lit(""), F.col("topic"), F.col("partition"), F.col("offset"))
    identity = F.concat_ws("\x00", *(header(name) for name in NAMES))
    keyed = records.withColumn(_KEY, F.when(header(QUERY).isNull(), own).otherwise(identity))
    if not records.isStreaming or within is None:
        return keyed.dropDuplicates([_KEY]).drop(_KEY)
    # The time of reading, not of writing: it cannot be late, and records that are late would be dropped unseen.
    read_at = keyed.withColumn(_SEEN, F.current_timestamp()).withWatermark(_SEEN, within)
    return read_at.dropDuplicatesWithinWatermark([_KEY]).drop(_KEY, _SEEN)

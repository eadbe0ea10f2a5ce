"""What a job cannot use goes to a topic, as it came, with the reason in its headers; nothing is dropped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace_spark import kafka, once
from tailrace_spark.job import Option

SUFFIX = ".dead-letter"
OPTION = Option("--dead-letter", f"topic for records that cannot be used (default: the first topic + {SUFFIX})")


def topic_of(options: Any) -> str:
    """--dead-letter, or its default. The options have `topic`, one or a list."""
    first: str = options.topic if isinstance(options.topic, str) else options.topic[0]
    named: str | None = options.dead_letter
    return named or first + SUFFIX


def dead_letters(refused: DataFrame, topic: str, job: str) -> DataFrame:
    """Rows for the sink, of records with a column `reason`: key, value and headers as they came, and five headers more.

    `dead-letter.topic`, `.partition` and `.offset` name the record, so that one that is written twice can be told.
    """
    position = {
        "job": F.lit(job),
        "reason": F.col("reason"),
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
    }
    more = F.array(
        *(
            F.struct(F.lit(f"dead-letter.{name}").alias("key"), value.cast("binary").alias("value"))
            for name, value in position.items()
        )
    )
    none = F.array().cast("array<struct<key:string,value:binary>>")
    headers = F.concat(F.coalesce("headers", none), more).alias("headers")
    return refused.select(F.lit(topic).alias("topic"), "key", "value", headers)


def unwritten(refused: DataFrame, letters: DataFrame) -> DataFrame:
    """Without those that are in the dead-letter topic already, for a batch that reads a topic again every night."""
    named = {"topic": "string", "partition": "int", "offset": "bigint"}
    columns = [once.header(f"dead-letter.{name}").cast(kind).alias(name) for name, kind in named.items()]
    return refused.join(letters.select(*columns), list(named), "left_anti")


def write(refused: DataFrame, options: Any, job: str) -> Mapping[str, int]:
    """Writes what there is (columns of the source, and `reason`); returns how many by reason."""
    reasons = Counter({row.reason: row["count"] for row in refused.groupBy("reason").count().collect()})
    if reasons:
        kafka.write_batch(dead_letters(refused, topic_of(options), job), options)
    return reasons


def shown(reasons: Mapping[str, int]) -> str:
    """For the console."""
    if not reasons:
        return "no dead letters"
    each = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return f"{sum(reasons.values()):,} dead letters ({each})"

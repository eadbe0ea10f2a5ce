"""The connector's options in one place: how a job reads topics and writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tailrace_spark.refusal import Refusal

COMMITTED = {"kafka.isolation.level": "read_committed"}  # unless --kafka-option isolation.level says otherwise


def client_options(pairs: Iterable[str]) -> dict[str, str]:
    """`security.protocol=SSL` as the connector wants it: {"kafka.security.protocol": "SSL"}. Raises Refusal."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Refusal(f"--kafka-option {pair!r} is not KEY=VALUE; for example --kafka-option client.rack=west.")
        found[f"kafka.{key.removeprefix('kafka.')}"] = value
    return found


def connection(options: Any) -> dict[str, str]:
    """The connector's options for the cluster that a job was given."""
    return {"kafka.bootstrap.servers": options.bootstrap, **client_options(options.kafka_option)}


def read_stream(spark: SparkSession, options: Any, topics: Iterable[str], **more: str) -> DataFrame:
    """Committed records of the topics from the earliest on, with headers, a bounded number per batch."""
    settings = {
        **COMMITTED,
        **connection(options),
        "subscribe": ",".join(topics),
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(options.max_offsets_per_trigger),
        **more,
    }
    return spark.readStream.format("kafka").options(**settings).load()


def read_batch(spark: SparkSession, options: Any, topics: Iterable[str], **more: str) -> DataFrame:
    """Committed records of the topics, from the earliest to the latest of now, with headers."""
    settings = {**COMMITTED, **connection(options), "subscribe": ",".join(topics), "includeHeaders": "true", **more}
    return spark.read.format("kafka").options(**settings).load()


def write_batch(frame: DataFrame, options: Any, **more: str) -> None:
    """Appends the rows (topic, key, value, headers, partition) to their topics."""
    settings: Mapping[str, str] = {**connection(options), "includeHeaders": "true", **more}
    frame.write.format("kafka").options(**settings).save()


def trigger(text: str) -> dict[str, Any]:
    """--trigger for DataStreamWriter.trigger: "now" is AvailableNow, anything else the time between batches."""
    return {"availableNow": True} if text == "now" else {"processingTime": text}

"""The stock connector reads through the gateway in batches: every way to say which topics and which offsets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.spark_cluster import Record, SparkCluster

BEGAN_MS = 1_700_000_000_000
PARTITIONS = 3


def read(spark: SparkSession, cluster: SparkCluster, **options: Any) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**options).load()


def values(frame: DataFrame) -> list[str]:
    return sorted(row.value for row in frame.selectExpr("cast(value as string) value").collect())


@pytest.fixture(scope="module")
def topic(shared_cluster: SparkCluster) -> str:
    """Three partitions of ten records, one a second: partition p holds "p-0" to "p-9"."""
    name = shared_cluster.create("batch", PARTITIONS)
    shared_cluster.produce(
        name,
        [
            Record(b"%d-%d" % (p, n), b"k%d" % n, (("part", b"%d" % p), ("n", b"%d" % n)), p, BEGAN_MS + 1000 * n)
            for p in range(PARTITIONS)
            for n in range(10)
        ],
    )
    return name


def all_of(*ranges: tuple[int, int, int]) -> list[str]:
    """(partition, first, end) as sorted values."""
    return sorted(f"{p}-{n}" for p, first, end in ranges for n in range(first, end))


EVERYTHING = all_of((0, 0, 10), (1, 0, 10), (2, 0, 10))


def test_a_record_has_all_its_columns(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    frame = read(spark, cluster, subscribe=topic, includeHeaders="true")
    row = frame.where("partition = 1 and offset = 4").selectExpr("*", "unix_millis(timestamp) ms").collect()[0]
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"k4", b"1-4", topic, 1, 4)
    assert (row.ms, row.timestampType) == (BEGAN_MS + 4000, 0)
    assert [(h.key, bytes(h.value)) for h in row.headers] == [("part", b"1"), ("n", b"4")]


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern", "assign"])
def test_topics_can_be_named_in_three_ways(spark: SparkSession, cluster: SparkCluster, topic: str, how: str) -> None:
    asked = {
        "subscribe": topic,
        "subscribePattern": f"bat.*{topic[-8:]}",
        "assign": json.dumps({topic: [0, 2]}),
    }[how]
    expected = EVERYTHING if how != "assign" else all_of((0, 0, 10), (2, 0, 10))
    assert values(read(spark, cluster, **{how: asked})) == expected


def test_several_topics_are_read_together(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    other = cluster.create("other")
    cluster.produce(other, [b"another"])
    frame = read(spark, cluster, subscribe=f"{topic},{other}")
    assert {(row.topic, row["count"]) for row in frame.groupBy("topic").count().collect()} == {(topic, 30), (other, 1)}


def test_offsets_are_given_as_json(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    frame = read(
        spark,
        cluster,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 3, "1": -2, "2": 9}}),  # -2 is the earliest
        endingOffsets=json.dumps({topic: {"0": 5, "1": 1, "2": -1}}),  # -1 is the latest
    )
    assert values(frame) == all_of((0, 3, 5), (1, 0, 1), (2, 9, 10))


def test_offsets_are_given_as_timestamps(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    frame = read(
        spark,
        cluster,
        subscribe=topic,
        startingOffsetsByTimestamp=json.dumps({topic: {str(p): BEGAN_MS + 2000 + p for p in range(PARTITIONS)}}),
        endingOffsetsByTimestamp=json.dumps({topic: {str(p): BEGAN_MS + 7000 for p in range(PARTITIONS)}}),
    )
    assert values(frame) == all_of((0, 2, 7), (1, 3, 7), (2, 3, 7))


def test_one_timestamp_serves_all_partitions(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    frame = read(spark, cluster, subscribe=topic, startingTimestamp=BEGAN_MS + 8000, endingTimestamp=BEGAN_MS + 60_000)
    assert values(frame) == all_of((0, 8, 10), (1, 8, 10), (2, 8, 10))


def test_a_starting_timestamp_after_the_end_follows_the_strategy(
    spark: SparkSession, cluster: SparkCluster, topic: str
) -> None:
    late = {"subscribe": topic, "startingTimestamp": BEGAN_MS + 60_000}
    latest = read(spark, cluster, **late, startingOffsetsByTimestampStrategy="latest")
    assert values(latest) == []
    with pytest.raises(Exception, match="No offset matched"):
        values(read(spark, cluster, **late))


def test_min_partitions_splits_the_offsets(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    frame = read(spark, cluster, subscribe=topic, minPartitions=12)
    assert frame.rdd.getNumPartitions() >= 12
    assert values(frame) == EVERYTHING


def test_the_deprecated_way_to_fetch_offsets_works(spark: SparkSession, cluster: SparkCluster, topic: str) -> None:
    setting = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(setting, "true")
    try:
        assert values(read(spark, cluster, subscribe=topic)) == EVERYTHING
        timed = read(spark, cluster, subscribePattern=f"bat.*{topic[-8:]}", startingTimestamp=BEGAN_MS + 9000)
        assert values(timed) == all_of((0, 9, 10), (1, 9, 10), (2, 9, 10))
    finally:
        spark.conf.unset(setting)


def test_an_empty_topic_and_null_records(spark: SparkSession, cluster: SparkCluster) -> None:
    topic = cluster.create("nulls", 2)
    assert read(spark, cluster, subscribe=topic).collect() == []
    cluster.produce(topic, [Record(None, b"gone", partition=0), Record(b"", None, (("empty", b""),), 1)])
    rows = read(spark, cluster, subscribe=topic, includeHeaders="true").orderBy("partition").collect()
    assert [(row.key, row.value) for row in rows] == [(b"gone", None), (None, b"")]
    assert [(h.key, h.value) for h in rows[1].headers] == [("empty", b"")]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_by_offset_and_time(spark: SparkSession, cluster: SparkCluster, codec: str) -> None:
    topic = cluster.create(codec)
    records = [Record(b"0-%d" % n, timestamp_ms=BEGAN_MS + n) for n in range(500)]
    cluster.produce(topic, records, compression_type=codec)
    assert values(read(spark, cluster, subscribe=topic)) == all_of((0, 0, 500))
    frame = read(spark, cluster, subscribe=topic, startingTimestamp=BEGAN_MS + 123, endingTimestamp=BEGAN_MS + 321)
    assert values(frame) == all_of((0, 123, 321))


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_isolation_level_is_taken(spark: SparkSession, cluster: SparkCluster, topic: str, level: str) -> None:
    assert values(read(spark, cluster, subscribe=topic, **{"kafka.isolation.level": level})) == EVERYTHING

"""The stock connector writes through the gateway: keys, headers, explicit partitions, one topic and many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.spark_cluster import Record, SparkCluster

HEADERS = "array<struct<key:string,value:binary>>"


def write(frame: DataFrame, cluster: SparkCluster, **options: Any) -> None:
    frame.write.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap).options(**options).save()


def test_keys_headers_and_partitions_arrive(spark: SparkSession, cluster: SparkCluster) -> None:
    topic = cluster.create("sink", 4)
    rows = [(f"k{n}", f"v{n}", n % 4, [("n", str(n).encode()), ("n", b"again")]) for n in range(40)]
    frame = spark.createDataFrame(rows, f"key string, value string, partition int, headers {HEADERS}")
    write(frame, cluster, topic=topic, includeHeaders="true")
    found = {r.value: (r.partition, r.key, [(k, bytes(v)) for k, v in r.headers]) for r in cluster.read(topic)}
    assert found == {b"v%d" % n: (n % 4, b"k%d" % n, [("n", b"%d" % n), ("n", b"again")]) for n in range(40)}


def test_one_frame_goes_to_many_topics(spark: SparkSession, cluster: SparkCluster) -> None:
    topics = [cluster.create("many") for _ in range(3)]
    frame = spark.createDataFrame([(topics[n % 3], f"{n}") for n in range(30)], "topic string, value string")
    write(frame, cluster)
    for number, topic in enumerate(topics):
        assert sorted(int(r.value) for r in cluster.read(topic)) == list(range(number, 30, 3))


def test_the_topic_option_wins_over_the_column(spark: SparkSession, cluster: SparkCluster) -> None:
    asked, column = cluster.create("asked"), cluster.create("column")
    write(spark.createDataFrame([(column, "x")], "topic string, value string"), cluster, topic=asked)
    assert [r.value for r in cluster.read(asked)] == [b"x"]
    assert cluster.read(column) == []


def test_without_a_key_or_a_value(spark: SparkSession, cluster: SparkCluster) -> None:
    topic = cluster.create("bare")
    write(spark.createDataFrame([(None, None), ("k", None)], "key string, value string"), cluster, topic=topic)
    assert sorted((r.key or b"", r.value) for r in cluster.read(topic)) == [(b"", None), (b"k", None)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_the_producer(spark: SparkSession, cluster: SparkCluster, codec: str) -> None:
    topic = cluster.create(f"codec-{codec}", 2)
    frame = spark.range(2000).selectExpr("cast(id as string) key", "repeat(cast(id as string), 20) value")
    write(frame, cluster, topic=topic, **{"kafka.compression.type": codec, "kafka.linger.ms": "20"})
    assert sorted(int(r.key) for r in cluster.read(topic)) == list(range(2000))


def test_a_stream_flows_from_topics_to_topics(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    source, even, odd = cluster.create("source", 2), cluster.create("even"), cluster.create("odd", 2)
    cluster.produce(source, [Record(b"%d" % n, b"k%d" % n, (("h", b"%d" % n),), n % 2) for n in range(100)])
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .options(subscribe=source, startingOffsets="earliest", includeHeaders="true")
        .load()
    )
    routed = records.selectExpr(
        f"if(partition = 0, '{even}', '{odd}') topic", "key", "value", "headers", "if(partition = 0, 0, 1) partition"
    )
    query = (
        routed.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .options(includeHeaders="true", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(int(r.value) for r in cluster.read(even)) == list(range(0, 100, 2))
    found = cluster.read(odd)
    assert sorted(int(r.value) for r in found) == list(range(1, 100, 2))
    assert {r.partition for r in found} == {1}
    assert all(r.headers[0] == ("h", r.value) and r.key == b"k" + r.value for r in found)

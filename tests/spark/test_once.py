"""Stamps and repeats, on static frames and through a topic that really holds repeats."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from support.spark_chain import COPIER, Chain
from support.spark_cluster import Record, SparkCluster
from tailrace_spark.once import NAMES, header, stamped, without_repeats

SCHEMA = "topic string, partition int, offset long, value string, headers array<struct<key: string, value: binary>>"


def stamps(row: Row) -> tuple[str, ...]:
    return tuple(next(bytes(h.value).decode() for h in row.headers if h.key == name) for name in NAMES)


def test_a_stamp_names_query_and_record(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("t", 2, 7, "v", [("mine", b"kept")]), ("t", 0, 8, "w", None)], SCHEMA)
    rows = stamped(frame, "q").orderBy("offset").collect()
    assert [stamps(row) for row in rows] == [("q", "t", "2", "7"), ("q", "t", "0", "8")]
    assert (rows[0].headers[0].key, bytes(rows[0].headers[0].value)) == ("mine", b"kept")
    assert [len(row.headers) for row in rows] == [5, 4]


def test_an_identity_goes_through_further_stages(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("t", 2, 7, "v", None)], SCHEMA)
    second = stamped(frame, "one").withColumns({"topic": F.lit("u"), "offset": F.lit(99)})
    assert stamps(stamped(second, "two").collect()[0]) == ("two<one", "t", "2", "7")


def test_several_records_of_one_are_numbered(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("t", 0, 1, "v", None)], SCHEMA)
    twice = frame.withColumn("n", F.explode(F.array(F.lit(0), F.lit(1))))
    rows = stamped(twice, "q", F.col("n")).collect()
    assert sorted(stamps(row)[3] for row in rows) == ["1/0", "1/1"]


def test_repeats_go_and_unstamped_records_stay(spark: SparkSession) -> None:
    first = stamped(spark.createDataFrame([("t", 0, n, f"{n}", None) for n in range(3)], SCHEMA), "q")
    again = first.where("offset > 0").withColumn("offset", F.col("offset") + 10)
    other = stamped(spark.createDataFrame([("t", 0, 1, "of another query", None)], SCHEMA), "r")
    plain = spark.createDataFrame([("t", 0, 50, "same", None), ("t", 0, 51, "same", None)], SCHEMA)
    kept = without_repeats(first.union(again).union(other).union(plain))
    assert sorted(row.value for row in kept.collect()) == ["0", "1", "2", "of another query", "same", "same"]
    assert kept.columns == first.columns


def test_a_batch_written_twice_is_read_once(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    source, target = cluster.create("source", 2), cluster.create("target", 3)
    cluster.produce(source, [Record(b"%d" % n, partition=n % 2) for n in range(60)])
    chain = Chain(spark, cluster.bootstrap, source, target, tmp_path)
    for query in chain.start(40, availableNow=True):
        query.awaitTermination()
    commits = chain.checkpoint(COPIER) / "commits"
    (commits / "1").unlink()  # what a driver leaves that dies between the last record and the commit
    (commits / ".1.crc").unlink()
    for query in chain.start(40, availableNow=True):
        query.awaitTermination()
    assert len(cluster.read(target)) == 80
    assert sorted(int(value) for _, _, value in chain.kept()) == list(range(60))

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    reader = reader.options(subscribe=target, startingOffsets="earliest", includeHeaders="true")
    once = without_repeats(reader.option("maxOffsetsPerTrigger", 30).load())
    once = once.select(F.col("value").cast("string"), header(NAMES[3]).alias("offset"))
    writer = once.writeStream.format("parquet").option("path", str(tmp_path / "once"))
    writer.option("checkpointLocation", str(tmp_path / "reader")).trigger(availableNow=True).start().awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "once")).collect()
    assert sorted(int(row.value) for row in rows) == list(range(60))
    assert sorted(int(row.offset) for row in rows) == sorted([*range(30), *range(30)])

"""The stock connector streams through the gateway: where it begins, how much a batch takes, what turns up meanwhile."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from support.spark_cluster import Record, SparkCluster

BEGAN_MS = 1_700_000_000_000


class Running:
    """A query into a table in memory, from a Kafka source with these options."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, folder: Path, **options: Any) -> None:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
        self.frame: DataFrame = reader.options(**options).load().selectExpr("cast(value as string) value")
        self.batches: list[list[str]] = []
        self.folder = folder

    def start(self, **trigger: Any) -> StreamingQuery:
        """Starts it; the checkpoint is the folder's."""
        writer = self.frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self.folder))
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def _take(self, batch: DataFrame, number: int) -> None:
        if found := sorted(row.value for row in batch.collect()):
            self.batches.append(found)

    @property
    def values(self) -> list[str]:
        """All that came."""
        return sorted(value for batch in self.batches for value in batch)


@pytest.fixture(autouse=True)
def no_query_stays(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


def numbered(first: int, end: int, partitions: int = 1) -> list[Record]:
    return [Record(b"%03d" % n, partition=n % partitions, timestamp_ms=BEGAN_MS + n) for n in range(first, end)]


def words(first: int, end: int) -> list[str]:
    return [f"{n:03}" for n in range(first, end)]


def test_available_now_takes_what_is_there_in_bounded_batches(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = cluster.create("bounded", 2)
    cluster.produce(topic, numbered(0, 100, 2))
    running = Running(spark, cluster, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    running.start(availableNow=True).awaitTermination()
    assert running.values == words(0, 100)
    assert [len(batch) for batch in running.batches] == [30, 30, 30, 10]


def test_a_restart_goes_on_where_the_checkpoint_ends(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = cluster.create("restarted", 2)
    for first in (0, 50, 100):
        cluster.produce(topic, numbered(first, first + 50, 2))
        running = Running(spark, cluster, tmp_path, subscribe=topic, startingOffsets="earliest")
        running.start(availableNow=True).awaitTermination()
        assert running.values == words(first, first + 50)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"startingOffsets": "latest"}, 20),
        ({"startingOffsets": '{"TOPIC": {"0": 5}}'}, 5),
        ({"startingTimestamp": BEGAN_MS + 7}, 7),
        ({"startingOffsetsByTimestamp": json.dumps({"TOPIC": {"0": BEGAN_MS + 9}})}, 9),
    ],
    ids=["latest", "json", "timestamp", "by-timestamp"],
)
def test_a_stream_begins_where_it_is_told(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path, options: dict[str, Any], first: int
) -> None:
    topic = cluster.create("begins")
    cluster.produce(topic, numbered(0, 20))
    told = {key: str(value).replace("TOPIC", topic) for key, value in options.items()}
    running = Running(spark, cluster, tmp_path, subscribe=topic, **told)
    query = running.start()
    query.processAllAvailable()
    cluster.produce(topic, numbered(20, 30))
    query.processAllAvailable()
    assert running.values == words(first, 30)


def test_partitions_added_while_a_query_runs_are_read(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = cluster.create("grows")
    cluster.produce(topic, numbered(0, 10))
    running = Running(spark, cluster, tmp_path, subscribe=topic, startingOffsets="earliest")
    query = running.start()
    query.processAllAvailable()
    cluster.add_partitions(topic, 4)
    cluster.produce(topic, numbered(10, 50, 4))
    query.processAllAvailable()
    assert running.values == words(0, 50)


def test_topics_created_while_a_query_runs_are_read(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    family = f"family-{uuid.uuid4().hex[:8]}"
    cluster.create_exactly(f"{family}-0")
    cluster.produce(f"{family}-0", numbered(0, 10))
    running = Running(spark, cluster, tmp_path, subscribePattern=f"{family}-.*", startingOffsets="earliest")
    query = running.start()
    query.processAllAvailable()
    for number in (1, 2):
        cluster.create_exactly(f"{family}-{number}", partitions=2)
        cluster.produce(f"{family}-{number}", numbered(10 * number, 10 * number + 10, 2))
        query.processAllAvailable()
    assert running.values == words(0, 30)


def test_the_deprecated_way_to_fetch_offsets_streams_too(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    """Through a consumer group. It sees new partitions with its metadata.max.age.ms, which nothing here waits for."""
    topic = cluster.create("deprecated", 2)
    cluster.produce(topic, numbered(0, 40, 2))
    setting = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(setting, "true")
    try:
        running = Running(spark, cluster, tmp_path, subscribe=topic, startingOffsets="earliest")
        query = running.start()
        query.processAllAvailable()
        cluster.produce(topic, numbered(40, 60, 2))
        query.processAllAvailable()
        query.stop()
    finally:
        spark.conf.unset(setting)
    assert running.values == words(0, 60)


def test_a_group_id_of_the_users_own_is_taken(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    topic = cluster.create("group-id")
    cluster.produce(topic, numbered(0, 10))
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.group.id": f"mine-{topic}", "minPartitions": 4}
    running = Running(spark, cluster, tmp_path, **options)
    running.start(availableNow=True).awaitTermination()
    assert running.values == words(0, 10)


@pytest.mark.parametrize("what", ["retention", "DeleteRecords"])
def test_deleted_records_fail_the_query_unless_it_is_told_otherwise(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path, what: str
) -> None:
    topic = cluster.create("deleted")
    cluster.produce(topic, numbered(0, 20))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    first = Running(spark, cluster, tmp_path, **options)
    first.start(availableNow=True).awaitTermination()
    cluster.produce(topic, numbered(20, 35))
    if what == "retention":
        cluster.retain_a_day(topic)
    else:
        cluster.delete_records(topic, {0: 35})
    cluster.produce(topic, [record._replace(timestamp_ms=None) for record in numbered(35, 60)])
    strict = Running(spark, cluster, tmp_path, **options)
    with pytest.raises(Exception, match="failOnDataLoss"):
        strict.start(availableNow=True).awaitTermination()
    assert strict.values == []
    lenient = Running(spark, cluster, tmp_path, **options, failOnDataLoss="false")
    lenient.start(availableNow=True).awaitTermination()
    assert lenient.values == words(35, 60)


def test_a_topic_made_anew_is_data_loss(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    topic = cluster.create("anew")
    cluster.produce(topic, numbered(0, 20))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    Running(spark, cluster, tmp_path, **options).start(availableNow=True).awaitTermination()
    cluster.delete(topic)
    cluster.create_exactly(topic)
    cluster.produce(topic, numbered(0, 5))
    with pytest.raises(Exception, match="failOnDataLoss"):
        Running(spark, cluster, tmp_path, **options).start(availableNow=True).awaitTermination()

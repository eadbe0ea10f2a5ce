"""The stock connector reads topics of transactional producers: committed, aborted and open transactions.

`kafka.isolation.level` is an option of the source. Without it Spark reads uncommitted, as Kafka's consumers do.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from support.spark_cluster import Record, SparkCluster
from support.waiting import HUNG_S, until

COMMITTED = {"kafka.isolation.level": "read_committed"}
PARTITIONS = 2


class Writer:
    """A transactional producer; each transaction writes its values to both partitions."""

    def __init__(self, cluster: SparkCluster, topic: str) -> None:
        self._topic = topic
        name = f"writer-{uuid.uuid4().hex[:8]}"
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name})
        self._producer.init_transactions(HUNG_S)

    def begin(self, *values: str) -> None:
        """Returns when the records are in the log."""
        self._producer.begin_transaction()
        for value in values:
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, f"{partition}-{value}".encode(), partition=partition)
        assert self._producer.flush(HUNG_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(HUNG_S)

    def abort(self) -> None:
        self._producer.abort_transaction(HUNG_S)


@pytest.fixture
def topic(cluster: SparkCluster) -> str:
    return cluster.create("transactions", PARTITIONS)


@pytest.fixture
def opened(cluster: SparkCluster, topic: str) -> Writer:
    """One transaction was committed, one aborted, and one is open; behind it are plain records and a committed one."""
    first, second = Writer(cluster, topic), Writer(cluster, topic)
    first.begin("a", "b")
    first.commit()
    first.begin("dropped")
    first.abort()
    first.begin("open")
    cluster.produce(topic, [Record(b"%d-plain" % partition, partition=partition) for partition in range(PARTITIONS)])
    second.begin("behind")
    second.commit()
    return first


def words(*values: str) -> list[str]:
    return sorted(f"{partition}-{value}" for partition in range(PARTITIONS) for value in values)


def wait_until_committed(cluster: SparkCluster, topic: str, *values: str) -> None:
    """The end of a transaction is answered before its markers are written."""

    def committed() -> list[str]:
        return sorted(record.value.decode() for record in cluster.read(topic, isolation_level="read_committed"))

    until(lambda: committed() == words(*values), "what was committed")


def read(spark: SparkSession, cluster: SparkCluster, topic: str, **options: str) -> list[str]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    frame = reader.options(subscribe=topic, **options).load()
    return sorted(row.value for row in frame.selectExpr("cast(value as string) value").collect())


def test_a_batch_at_read_committed_ends_before_the_open_transaction(
    spark: SparkSession, cluster: SparkCluster, topic: str, opened: Writer
) -> None:
    assert read(spark, cluster, topic, **COMMITTED) == words("a", "b")
    assert read(spark, cluster, topic) == words("a", "b", "dropped", "open", "plain", "behind")
    opened.commit()
    everything = ("a", "b", "open", "plain", "behind")
    wait_until_committed(cluster, topic, *everything)
    assert read(spark, cluster, topic, **COMMITTED) == words(*everything)


class Stream:
    """A query from the topic at read_committed into a list; it can be stopped and started again."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, topic: str, folder: Path, **options: Any) -> None:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
        asked = {"subscribe": topic, "startingOffsets": "earliest", **COMMITTED, **options}
        self._frame: DataFrame = reader.options(**asked).load().selectExpr("cast(value as string) value")
        self._folder = folder
        self.values: list[str] = []

    def run(self) -> list[str]:
        """Everything that it takes until it is at the end; goes on where the run before ended."""
        self.values = []
        writer = self._frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._folder))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(self.values)

    def _take(self, batch: DataFrame, number: int) -> None:
        self.values += [row.value for row in batch.collect()]


@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": 1}], ids=["at once", "offset by offset"])
def test_a_stream_at_read_committed_waits_for_the_open_transaction(
    spark: SparkSession, cluster: SparkCluster, topic: str, opened: Writer, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Markers and aborted records leave gaps between the offsets; a batch that is all gap is no lost data."""
    stream = Stream(spark, cluster, topic, tmp_path, **options)
    assert stream.run() == words("a", "b")
    assert stream.run() == []
    opened.commit()
    everything = ("a", "b", "open", "plain", "behind")
    wait_until_committed(cluster, topic, *everything)
    assert stream.run() == words("open", "plain", "behind")
    opened.begin("late")
    assert stream.run() == []
    opened.abort()
    assert stream.run() == []
    opened.begin("last")
    opened.commit()
    wait_until_committed(cluster, topic, *everything, "last")
    assert stream.run() == words("last")

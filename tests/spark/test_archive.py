"""Archive and restore: what comes back into an empty cluster is what was there."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from support.spark_cluster import SparkCluster
from support.table_readers import rows_for_all
from support.waiting import HUNG_S, until
from tailrace_spark.admin import Topic
from tailrace_spark.archive import job, restore_job
from tailrace_spark.archive.topics import from_json, left_different, merged, to_create, to_json
from tailrace_spark.job import JobRun
from tailrace_spark.launch import run_checked
from tailrace_spark.refusal import Refusal

BEGAN_MS = 1_700_000_000_000
PARTITIONS = 3


@pytest.fixture(scope="module")
def empty_cluster() -> Iterator[SparkCluster]:
    with SparkCluster() as running:
        yield running


def fill(cluster: SparkCluster, topic: str, first: int, end: int) -> None:
    """Every kind of record: no key, no value, neither, headers twice, empty and null, times out of order."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for n in range(first, end):
        producer.produce(
            topic,
            key=None if n % 5 == 0 else b"key-%d" % (n % 7),
            value=None if n % 4 == 0 else b"\x00\xff value %d" % n,
            headers=[("n", b"%d" % n), ("n", b""), ("none", None)] if n % 3 else [],
            partition=n % PARTITIONS,
            timestamp=BEGAN_MS + 1000 * n - 5000 * (n % 10),
        )
    assert producer.flush(HUNG_S) == 0


def records(cluster: SparkCluster, topic: str) -> list[tuple[Any, ...]]:
    return [
        (r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers))
        for r in cluster.read(topic)
    ]


def options(cluster: SparkCluster, folder: Path, topics: str, **more: Any) -> Namespace:
    common = {
        "bootstrap": cluster.bootstrap,
        "topics": topics,
        "output": str(folder / "archive"),
        "checkpoint": str(folder / "checkpoint"),
        "input": str(folder / "archive"),
        "fail_on_data_loss": "true",
        "kafka_option": [],
        "trigger": "now",
        "optimize_every": 3,
        "max_offsets_per_trigger": 40,
        "log": folder / "spark.log",
    }
    return Namespace(**{**common, **more})


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Namespace], list[str]]:
    """Runs a job; answers what it said."""

    def go(module: Any, given: Namespace) -> list[str]:
        said: list[str] = []
        monkeypatch.setattr("tailrace_spark.launch.say", said.append)
        keys = {option.key for option in module.JOB.options} | {"log"}
        run_checked(module.JOB, Namespace(**{k: v for k, v in vars(given).items() if k in keys}), spark)
        return said

    return go


def test_everything_comes_back_into_an_empty_cluster(
    spark: SparkSession,
    cluster: SparkCluster,
    empty_cluster: SparkCluster,
    tmp_path: Path,
    run: Callable[[Any, Namespace], list[str]],
) -> None:
    orders = cluster.create("orders", PARTITIONS, {"retention.ms": "990000000000", "max.message.bytes": "2000000"})
    small = cluster.create("small", 2)
    given = options(cluster, tmp_path, f"{orders},{small}")
    fill(cluster, orders, 0, 150)
    assert "total: 150 records" in run(job, given)
    fill(cluster, orders, 150, 200)
    cluster.produce(small, [b"one"])
    assert "total: 51 records" in run(job, given)

    assert rows_for_all(spark, given.output) == 201
    said = run(restore_job, options(empty_cluster, tmp_path, ""))
    assert "total: 201 records" in said
    assert records(empty_cluster, orders) == records(cluster, orders)
    assert [r.value for r in empty_cluster.read(small)] == [b"one"]
    assert f"tailrace config set topic {orders} retention.ms=990000000000" in said[-1]

    again = run(restore_job, options(empty_cluster, tmp_path, orders))
    assert "total: 0 records" in again
    assert records(empty_cluster, orders) == records(cluster, orders)


def test_only_what_was_committed_is_kept_in_its_order(
    cluster: SparkCluster, empty_cluster: SparkCluster, tmp_path: Path, run: Callable[[Any, Namespace], list[str]]
) -> None:
    topic = cluster.create("committed")
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions()
    for number, end in enumerate((True, False, True)):
        producer.begin_transaction()
        for n in range(3):
            producer.produce(
                topic, b"%d-%d" % (number, n), key=b"k", headers=[("n", b"%d" % n)], timestamp=BEGAN_MS + n, partition=0
            )
        producer.flush(HUNG_S)
        (producer.commit_transaction if end else producer.abort_transaction)()
    # The end of a transaction is answered before its markers are written.
    until(lambda: len(cluster.read(topic, isolation_level="read_committed")) == 6, "what was committed")
    run(job, options(cluster, tmp_path, topic))
    run(restore_job, options(empty_cluster, tmp_path, topic))
    kept = [(r.value, r.key, list(r.headers), r.timestamp) for r in empty_cluster.read(topic)]
    assert kept == [
        (b"%d-%d" % (number, n), b"k", [("n", b"%d" % n)], BEGAN_MS + n) for number in (0, 2) for n in range(3)
    ]


def test_a_restore_goes_on_where_it_was_killed(
    cluster: SparkCluster, tmp_path: Path, run: Callable[[Any, Namespace], list[str]]
) -> None:
    topic = cluster.create("half", PARTITIONS)
    fill(cluster, topic, 0, 60)
    run(job, options(cluster, tmp_path, topic))
    before = records(cluster, topic)
    cluster.delete(topic)
    cluster.create_exactly(topic, PARTITIONS)
    fill(cluster, topic, 0, 31)  # what a killed restore would have left
    said = run(restore_job, options(cluster, tmp_path, topic))
    assert "total: 29 records" in said
    assert records(cluster, topic) == before


def test_other_records_are_not_mixed_with_the_archives(
    cluster: SparkCluster, tmp_path: Path, run: Callable[[Any, Namespace], list[str]]
) -> None:
    topic = cluster.create("mixed", PARTITIONS)
    fill(cluster, topic, 0, 30)
    run(job, options(cluster, tmp_path, topic))
    cluster.delete(topic)
    cluster.create_exactly(topic, PARTITIONS)
    cluster.produce(topic, [b"somebody else's"])
    with pytest.raises(Refusal, match="holds other records than the archive; restore into an empty topic"):
        run(restore_job, options(cluster, tmp_path, topic))


def test_what_is_no_archive_is_refused(
    cluster: SparkCluster, tmp_path: Path, run: Callable[[Any, Namespace], list[str]]
) -> None:
    with pytest.raises(Refusal, match=r"is no archive \(it has no _topics.json\)"):
        run(restore_job, options(cluster, tmp_path, ""))
    topic = cluster.create("known")
    run(job, options(cluster, tmp_path, topic))
    with pytest.raises(Refusal, match="The archive has no topic unknown; it has: known"):
        run(restore_job, options(cluster, tmp_path, "unknown"))


def test_retention_that_was_faster_fails_the_job_in_a_sentence(
    cluster: SparkCluster, tmp_path: Path, run: Callable[[Any, Namespace], list[str]]
) -> None:
    topic = cluster.create("passed-by", PARTITIONS)
    fill(cluster, topic, 0, 30)
    run(job, options(cluster, tmp_path, topic))
    fill(cluster, topic, 30, 60)
    cluster.delete_records(topic, {0: 15})
    with pytest.raises(Refusal, match="Records were deleted from a topic before this query had read them"):
        run(job, options(cluster, tmp_path, topic))
    assert "total: 25 records" in run(job, options(cluster, tmp_path, topic, fail_on_data_loss="false"))


def test_what_is_known_of_topics_survives_the_file_and_only_grows() -> None:
    old, new = Topic("a", 3, {"retention.ms": "5"}), Topic("a", 2, {"cleanup.policy": "compact"})
    known = merged(from_json(to_json([old])), [new, Topic("b", 1, {})])
    assert known == {"a": Topic("a", 3, {"cleanup.policy": "compact"}), "b": Topic("b", 1, {})}
    assert to_create(known["a"]).configs["cleanup.policy"] == "delete"
    assert left_different(known["a"]) == {"cleanup.policy": "compact"}
    assert left_different(known["b"]) == {}


def test_a_run_is_a_plain_value(spark: SparkSession) -> None:
    given = Namespace(topics=" a, b,,c ")
    assert job.names(given) == restore_job.wanted(JobRun(spark, given, print).options) == ("a", "b", "c")

"""kill -9 of the driver, of the broker and of the coordinator while queries run; each goes on from its checkpoint.

Afterwards the Delta table has every acknowledged record exactly once, the second topic at least once, and a reader that
drops repeats has each once again.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from support.load import Load
from support.spark_chain import COPIER, Chain
from support.spark_cluster import Record, SparkCluster
from support.waiting import until
from tailrace_spark.once import without_repeats

PARTITIONS = 3


@pytest.fixture(scope="module")
def hurt() -> Iterator[SparkCluster]:
    """Two brokers that tests may kill."""
    with SparkCluster(brokers=2) as running:
        yield running


def work_off(chain: Chain) -> None:
    """Both queries to the end of what is there, from their checkpoints as often as they fail."""
    for _ in range(10):
        try:
            for query in chain.start(availableNow=True):
                query.awaitTermination()
            return
        except StreamingQueryException:
            for query in chain.spark.streams.active:
                query.stop()
    raise AssertionError("the queries failed ten times")


def read_once(chain: Chain) -> list[str]:
    """The target's records without repeats."""
    reader = chain.spark.read.format("kafka").option("kafka.bootstrap.servers", chain.bootstrap)
    records = reader.options(subscribe=chain.target, includeHeaders="true").load()
    return sorted(row.value for row in without_repeats(records).selectExpr("cast(value as string) value").collect())


def check(chain: Chain, cluster: SparkCluster, acknowledged: dict[int, tuple[int, int]]) -> int:
    """The promises of this file; answers how many repeats the target holds."""
    kept = chain.kept()
    places = {(partition, offset): value for partition, offset, value in kept}
    assert len(places) == len(kept), "the table has a record twice"
    missing = [n for n, place in acknowledged.items() if places.get(place) != str(n)]
    assert not missing, f"the table lacks {len(missing)} acknowledged records, such as {missing[:3]}"
    source = cluster.read(chain.source)
    assert set(places) == {(r.partition, r.offset) for r in source}
    values = sorted(r.value.decode() for r in source)
    copied = [r.value.decode() for r in cluster.read(chain.target)]
    assert set(copied) == set(values)
    assert read_once(chain) == values
    return len(copied) - len(values)


def latest_offsets(queries: list[Any]) -> list[dict[str, int]]:
    """The end offsets that a query saw, batch by batch."""
    seen = [json.loads(progress.json)["sources"][0] for progress in queries[0].recentProgress]
    rows = (source["latestOffset"] for source in seen if source["latestOffset"])
    return [parts for row in rows for parts in (json.loads(row) if isinstance(row, str) else row).values()]


@pytest.mark.parametrize(("role", "number"), [("broker", 0), ("coordinator", 0)])
def test_queries_outlive_a_service(
    spark: SparkSession, hurt: SparkCluster, tmp_path: Path, role: str, number: int
) -> None:
    source, target = hurt.create("source", PARTITIONS), hurt.create("target", 2)
    chain = Chain(spark, hurt.bootstrap, source, target, tmp_path)
    with Load(hurt.bootstrap, source) as load:
        load.wait_for(200)
        queries = chain.start(500)
        # Spark refuses a checkpoint for ever if the query was stopped in its very first batch.
        until(lambda: all(query.lastProgress for query in queries), "the first batch of both queries")
        load.wait_for(300)
        mark = hurt.kill(role, number)
        load.wait_for(50)
        hurt.wait_for("ready", role, number, since=mark)
        load.wait_for(300)
    ends = latest_offsets(queries)
    for query in queries:
        query.stop()
    for before, after in itertools.pairwise(ends):
        assert all(after[partition] >= offset for partition, offset in before.items()), (before, after)
    assert load.promised.failed == []
    work_off(chain)
    check(chain, hurt, load.promised.acknowledged)


@pytest.mark.parametrize("role", ["broker", "coordinator"])
def test_end_offsets_are_exact_right_after_a_restart(spark: SparkSession, hurt: SparkCluster, role: str) -> None:
    topic = hurt.create("exact", PARTITIONS)
    frame = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", hurt.bootstrap).option("subscribe", topic).load()
    )
    for round_number in range(1, 4):
        hurt.produce(topic, [Record(b"%d" % n, partition=n % PARTITIONS) for n in range(100)])
        mark = hurt.kill(role, 0)
        assert frame.count() == 100 * round_number
        hurt.wait_for("ready", role, 0, since=mark)


def test_queries_outlive_their_driver(spark: SparkSession, hurt: SparkCluster, jars: Path, tmp_path: Path) -> None:
    source, target = hurt.create("source", PARTITIONS), hurt.create("target", 2)
    given = {"bootstrap": hurt.bootstrap, "source": source, "target": target, "folder": str(tmp_path)}
    command = (sys.executable, "-m", "support.spark_chain", json.dumps({**given, "jars": str(jars), "per_batch": 200}))
    sent = hurt.produce(source, [Record(b"%d" % n, partition=n % PARTITIONS) for n in range(3000)])
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environ)
    assert driver.stdout
    # In the middle of both queries: the table's is the slower one, and has something by then.
    left = {f"{COPIER} batch 2:", "table batch 0:"}
    with driver.stdout as lines:
        for line in lines:
            left -= {told for told in left if line.startswith(told)}
            if not left:
                break
        os.killpg(driver.pid, signal.SIGKILL)  # Python and its JVM at once, in the middle of a batch
    assert driver.wait() == -signal.SIGKILL
    chain = Chain(spark, hurt.bootstrap, source, target, tmp_path)
    assert 0 < len(chain.kept()) < sent
    work_off(chain)
    check(chain, hurt, {n: (n % PARTITIONS, n // PARTITIONS) for n in range(sent)})

"""The job through a cluster: each line once in the table or in the dead-letter topic, whatever happens in between."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.log_lines import BEGAN, Line, lines
from support.spark_cluster import SparkCluster
from support.table_readers import read_meanwhile, rows_for_all, rows_in_duckdb, rows_in_pandas
from tailrace_spark import dead_letter
from tailrace_spark.job import JobRun
from tailrace_spark.logs import job, query
from tailrace_spark.logs.search import Ask, search
from tailrace_spark.logs.store import LogTables
from tailrace_spark.tables import delta

PARTITIONS = 2


class Jobs:
    """Runs the job over what is there."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, folder: Path) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        self.topic = cluster.create("logs", PARTITIONS)
        cluster.create_exactly(self.topic + dead_letter.SUFFIX)
        self.said: list[str] = []
        self.tables = LogTables(str(folder / "table"))
        self.sent: list[Line] = []

    def produce(self, every: list[Line]) -> None:
        self.sent += every
        self.cluster.produce(self.topic, [line.record() for line in every])

    def run(self, most: int = 1000, optimize_every: int = 0) -> None:
        options = job.JOB.given(
            bootstrap=self.cluster.bootstrap,
            topic=[self.topic],
            checkpoint=str(self.folder / "checkpoint"),
            output=str(self.folder / "table"),
            trigger="now",
            max_offsets_per_trigger=most,
            optimize_every=optimize_every,
        )
        job.run(JobRun(self.spark, options, self.said.append))

    def stored(self) -> Counter[tuple[int, int]]:
        rows = delta.read(self.spark, self.tables.lines).select("partition", "offset").collect()
        return Counter((row.partition, row.offset) for row in rows)

    def refused(self) -> list[Any]:
        return self.cluster.read(self.topic + dead_letter.SUFFIX)


@pytest.fixture
def jobs(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> Jobs:
    return Jobs(spark, cluster, tmp_path)


def test_a_spike_an_hour_down_and_a_batch_done_twice(jobs: Jobs) -> None:
    late = Line("web", BEGAN, f"{BEGAN - timedelta(days=9):%Y-%m-%d %H:%M:%S} late-by-days".encode())
    jobs.produce([*lines(10, seed=1, broken_every=5, hours=1), late])
    jobs.run(most=400)
    # Down for an hour, and then a hundred times as many as before: worked off in bounded batches.
    jobs.produce(list(lines(1000, seed=2, hours=1)))
    # The driver died after the table had the batch and before the checkpoint had: it is done again.
    commits = jobs.folder / "checkpoint" / "commits"
    (commits / "0").unlink()
    (commits / ".0.crc").unlink(missing_ok=True)
    jobs.run(most=400)
    broken = sum(line.broken for line in jobs.sent)
    stored = jobs.stored()
    assert set(stored.values()) == {1}, "no line twice"
    refused = {}
    for record in jobs.refused():
        told = dict(record.headers)
        refused[int(told["dead-letter.partition"]), int(told["dead-letter.offset"])] = told["dead-letter.reason"]
    ends = jobs.cluster.end_offsets(jobs.topic, range(PARTITIONS))
    everything = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    assert set(stored) | set(refused) == everything and len(everything) == 1011
    assert set(stored).isdisjoint(refused) and len(refused) == broken == 22
    assert set(refused.values()) == {b"empty", b"not UTF-8", b"not JSON", b"does not match its format"}
    batches = [line for line in jobs.said if line.startswith("logs batch ") and "dead letters" in line]
    assert len([line for line in jobs.said if "is in the table already" in line]) == 1
    sizes = [int(line.split(": ")[1].split(" lines")[0]) for line in batches]
    assert len(sizes) >= 4 and max(sizes) <= 400, "a bounded rate"
    found = search(jobs.spark, jobs.tables, Ask(query.parse("late-by-days"))).rows
    assert [(row.source, row.timestamp.date()) for row in found] == [("web", (BEGAN - timedelta(days=9)).date())]


def test_compacts_as_it_goes_while_others_read(jobs: Jobs) -> None:
    every = [line._replace(source="web") for line in lines(40, seed=4, broken_every=0, hours=1)]
    jobs.produce(every)
    path = jobs.tables.lines
    with read_meanwhile(path, rows_in_pandas) as pandas, read_meanwhile(path, rows_in_duckdb) as duckdb:
        jobs.run(most=10, optimize_every=4)
    sizes = [int(size) for line in jobs.said for size in re.findall(r"^logs batch \d+: (\d+) lines,", line)]
    whole = {0, *itertools.accumulate(sizes)}
    for seen in (pandas, duckdb):
        assert seen == sorted(seen) and set(seen) <= whole and seen[-1] == 40, "whole batches only"
    assert rows_for_all(jobs.spark, path) == 40
    assert rows_for_all(jobs.spark, jobs.tables.index) > 40
    assert delta.snapshot(jobs.spark, jobs.tables.lines).files.count() == 1
    assert jobs.stored() == Counter(dict.fromkeys(jobs.stored(), 1)) and len(jobs.stored()) == 40
    assert f"{jobs.tables.lines}: 4 files compacted into 1" in jobs.said

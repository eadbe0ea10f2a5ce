"""Metrics: percentiles within the error stated, windows that close, late requests handed back, a batch done twice."""

from __future__ import annotations

import bisect
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support.commands import ROOT
from support.spark_cluster import Record, SparkCluster
from support.spark_frames import ARRIVED, frame, of_lines
from support.table_readers import rows_for_all
from tailrace_spark import dead_letter
from tailrace_spark.job import JobRun
from tailrace_spark.metrics import frames, job
from tailrace_spark.tables import delta

BEGAN = datetime(2026, 11, 21, 15, tzinfo=UTC)
OPERATIONS = (("cart", "add"), ("cart", "list"), ("pay", "charge"))


def request(at: datetime, service: str, operation: str, milliseconds: float, status: int = 200) -> bytes:
    row = {"time": at.isoformat(), "service": service, "operation": operation, "duration_ms": milliseconds}
    return json.dumps({**row, "status": status}).encode()


def nearest_rank(values: list[float], share: float) -> float:
    return sorted(values)[max(1, math.ceil(len(values) * share)) - 1]


def test_percentiles_are_exact_in_small_windows_and_else_within_the_error_stated(spark: SparkSession) -> None:
    """Whatever the distribution, also where the sketches of several batches are merged."""
    chance = random.Random(5)
    shapes = {
        "one": [17.0],
        "two humps": [chance.choice((chance.gauss(5, 0.1), chance.gauss(9000, 50))) for _ in range(501)],
        "tiny and zero": [chance.choice((0.0, 1e-9, 0.002)) for _ in range(99)],
        "as many as are exact": [chance.paretovariate(0.7) for _ in range(frames.SKETCH_K)],
        "log-normal": [chance.lognormvariate(3, 2) for _ in range(20_000)],
    }
    spans = frames.windows(60, 0)
    rows = [
        {"time": "2026-11-21T15:00:01Z", "service": name, "operation": "", "duration_ms": value, "batch": number % 3}
        for name, values in shapes.items()
        for number, value in enumerate(values)
    ]
    kind = "time: timestamp, service: string, operation: string, duration_ms: double, batch: int"
    requests = frame(spark, rows, f"array<struct<{kind}>>").withColumn("status", F.lit(200))
    parts = [frames.counts(requests.where(f"batch = {number}"), spans) for number in range(3)]
    for row in frames.summary(spans.fold(*parts), spans).collect():
        values = sorted(shapes[row.service])
        for name, share in frames.PERCENTILES.items():
            exact = nearest_rank(values, share)
            if len(values) <= frames.SKETCH_K:
                assert row[name] == exact, (row, name)
            else:
                rank = bisect.bisect_right(values, row[name]) / len(values)
                assert abs(rank - share) <= frames.RANK_ERROR, (row, name)


def test_of_a_table_only_the_files_of_the_windows_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """As the job publishes the windows that a batch has closed, however many the table has."""
    path, minute, spans = str(tmp_path / "metrics"), 60_000_000, frames.windows(60, 0)
    for number in range(5):
        start = F.timestamp_micros(F.lit(number * minute)).alias("start")
        delta.append(spark.range(1).select(start, F.lit(number).alias("requests")), path, "test", number)
    closed = delta.read(spark, path).where(spans.is_closed(4 * minute) & ~spans.is_closed(3 * minute))
    assert [row.requests for row in closed.collect()] == [3]
    assert len(closed.inputFiles()) == 2  # Delta has the end of a file's times to the millisecond, rounded up


def test_a_request_that_cannot_be_used_has_a_reason(spark: SparkSession) -> None:
    good = request(BEGAN, "cart", "add", 1.5)
    reasons: dict[bytes | None, str | None] = {
        good: None,
        None: "empty",
        b"[]": "not JSON",
        good.replace(b'"service"', b'"x"'): "no service",
        good.replace(b"1.5", b'"long"'): "duration_ms is no double",
        good.replace(b"1.5", b"-1"): "duration_ms is no duration",
        good.replace(b"2026-11-21T15", b"2026-11-21T25"): "time is no timestamp",
        request(ARRIVED + timedelta(hours=1), "cart", "add", 1): "from the future",
        good.replace(b"200", b"null"): None,
    }
    parsed = frames.parse(of_lines(spark, reasons)).orderBy("offset").collect()
    assert [row.reason for row in parsed] == list(reasons.values())


def draw_as_the_page_does(folder: Path) -> None:
    """Runs the code of docs/spark-tables.md that draws a picture, on the table of this test."""
    page = (ROOT / "docs" / "spark-tables.md").read_text()
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "plt" in block)
    command = [sys.executable, "-c", code.replace("/srv/metrics", str(folder / "table"))]
    subprocess.run(command, cwd=folder, env={**os.environ, "MPLBACKEND": "Agg"}, check=True)
    assert "</svg>" in (folder / "metrics.svg").read_text()


class Metrics:
    """Runs the job over what is there."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, folder: Path) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        self.topic, self.to = cluster.create("requests"), cluster.create("metrics", 2, {"cleanup.policy": "compact"})
        cluster.create_exactly(self.topic + dead_letter.SUFFIX)
        self.said: list[str] = []

    def run(self) -> None:
        options = job.JOB.given(
            bootstrap=self.cluster.bootstrap,
            topic=self.topic,
            to=self.to,
            checkpoint=str(self.folder / "checkpoint"),
            output=str(self.folder / "table"),
            window=60,
            lateness=60,
            trigger="now",
        )
        job.run(JobRun(self.spark, options, self.said.append))


def test_metrics_of_closed_windows_once_in_the_table_and_by_key_in_the_topic(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    metrics = Metrics(spark, cluster, tmp_path)
    chance = random.Random(7)
    expected: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def produce(first_minute: int, minutes: int) -> None:
        records = []
        for _ in range(300):
            at = BEGAN + timedelta(minutes=first_minute, seconds=chance.uniform(0, minutes * 60 - 0.001))
            service, operation = chance.choice(OPERATIONS)
            taken = chance.lognormvariate(3, 1)
            expected[f"{at:%Y-%m-%dT%H:%M:00Z}", service, operation].append(taken)
            records.append(Record(request(at, service, operation, taken, chance.choice((200, 503)))))
        cluster.produce(metrics.topic, records)

    produce(0, 3)
    cluster.produce(metrics.topic, [b"{", b"\xff"])
    metrics.run()
    checkpoint = tmp_path / "checkpoint" / "commits"
    for name in ("0", ".0.crc"):
        (checkpoint / name).unlink(missing_ok=True)  # the driver died before the checkpoint had the batch: done again
    produce(3, 3)
    late = request(BEGAN + timedelta(seconds=5), "cart", "add", 1)
    cluster.produce(metrics.topic, [late])
    metrics.run()

    table = delta.read(spark, str(tmp_path / "table")).collect()
    found = {(f"{row.start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", row.service, row.operation): row for row in table}
    closed = {key: values for key, values in expected.items() if key[0] < "2026-11-21T15:04:00Z"}
    assert len(found) == len(table) == rows_for_all(spark, str(tmp_path / "table")), "each window once"
    draw_as_the_page_does(tmp_path)
    assert {key: row.requests for key, row in found.items()} == {key: len(values) for key, values in closed.items()}
    for key, row in found.items():
        assert row.p90_ms == nearest_rank(closed[key], 0.9)
        assert row.mean_ms == pytest.approx(sum(closed[key]) / len(closed[key]))
        assert row.per_second == len(closed[key]) / 60
    by_key = {record.key.decode(): json.loads(record.value) for record in cluster.read(metrics.to)}
    assert {(row["start"], row["service"], row["operation"]): row["requests"] for row in by_key.values()} == {
        key: len(values) for key, values in closed.items()
    }
    letters: list[Any] = cluster.read(metrics.topic + dead_letter.SUFFIX)
    told = {bytes(record.value): dict(record.headers)["dead-letter.reason"] for record in letters}
    assert told == {b"{": b"not JSON", b"\xff": b"not JSON", late: b"too late"}

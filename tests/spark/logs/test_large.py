"""Data larger than memory: written through the topic, searched by the command with a small driver.

TAILRACE_LOG_BYTES says how much. A line is a JSON record with the stack it was logged from, 1.5 KB. What a search reads
of any table, footers and pages of the index, is about a megabyte, so the share falls as the table grows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from support.spark_cluster import SparkCluster
from support.spark_settings import JVM
from tailrace_spark import dead_letter
from tailrace_spark.job import JobRun
from tailrace_spark.logs import job

BYTES = int(os.environ.get("TAILRACE_LOG_BYTES", "2000000"))
LINE_BYTES = 1_500
FRAMES = 18  # of the stack in each line
DRIVER = "512m"
HITS = 4
LARGE = 1_000_000_000  # from here on the share counts


def frame(number: int) -> Column:
    """One line of a stack: a few thousand places in the code of a shop."""
    place = F.col("id") * (number + 3) % 977
    return F.format_string(
        "at com.example.shop.module%d.OrderService%d.handleRequest(OrderService%d.java:%d)",
        F.lit(number),
        place % 41,
        place % 41,
        place,
    )


def write_lines(spark: SparkSession, bootstrap: str, topic: str, count: int) -> None:
    """JSON lines of four services over an hour; each has an id, a few are timeouts."""
    at = F.expr(f"timestamp'2026-11-21 12:00:00' + make_dt_interval(0, 0, 0, id * {3599 / count})")
    rare = F.col("id") % (count // HITS) == 77
    what = F.when(rare, "timeout of the payment provider, gave up after").otherwise(
        "order placed by a customer who paid by"
    )
    row = F.struct(
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'").alias("ts"),
        F.when(rare, "ERROR").otherwise("INFO").alias("level"),
        F.concat(F.lit("service-"), F.col("id") % 4).alias("service"),
        F.concat_ws(" ", what, F.col("id") % 7000, F.lit("card")).alias("msg"),
        F.concat_ws(" ", *(frame(number) for number in range(FRAMES))).alias("stack"),
        F.sha1(F.col("id").cast("string")).alias("request"),
    )
    value = F.to_json(row)
    lines = spark.range(count).select(
        value.cast("binary").alias("value"), F.concat(F.lit("service-"), F.col("id") % 4).cast("binary").alias("key")
    )
    lines.write.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic}).save()


def test_a_selective_search_reads_a_small_part_with_a_small_driver(
    spark: SparkSession, cluster: SparkCluster, jars: Path, tmp_path: Path
) -> None:
    topic = cluster.create("large", 2)
    cluster.create_exactly(topic + dead_letter.SUFFIX)
    count = BYTES // LINE_BYTES
    write_lines(spark, cluster.bootstrap, topic, count)
    options = job.JOB.given(
        bootstrap=cluster.bootstrap,
        topic=[topic],
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "table"),
        trigger="now",
        max_offsets_per_trigger=2_000_000,
    )
    said: list[str] = []
    job.run(JobRun(spark, options, said.append))
    print("\n".join(said))
    command = [sys.executable, "-m", "tailrace_spark", "logs", "search", "timeout AND error", "--limit", "5"]
    command += ["--output", options.output, "--jars", str(jars), "--conf", f"spark.driver.memory={DRIVER}"]
    command += ["--log", str(tmp_path / "spark.log")]
    command += ["--master", "local[2]", "--conf", f"spark.driver.extraJavaOptions={JVM}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    *shown, told = done.stdout.strip().splitlines()
    assert len(shown) >= HITS and all(" error: timeout of the payment" in line for line in shown)
    assert f"{HITS} lines match" in told
    if BYTES >= LARGE:
        share = re.search(r"\(([\d.]+) %\)", told)
        assert share and float(share[1]) < 10

"""The demo finds this machine's logs, brings them through a cluster into a table and ends with a search."""

from __future__ import annotations

import gzip
from argparse import Namespace
from pathlib import Path

from pyspark.sql import SparkSession

from support.spark_cluster import SparkCluster
from tailrace_spark.demo.job import QUERIES, aggregate_and_search, send
from tailrace_spark.demo.machine import machine_lines
from tailrace_spark.job import JobRun


def test_lines_of_readable_text_with_their_source(tmp_path: Path) -> None:
    (tmp_path / "dpkg.log").write_text("one\n\ntwo\r\n")
    (tmp_path / "dpkg.log.1").write_text("older\n")
    (tmp_path / "dpkg.log.2.gz").write_bytes(gzip.compress(b"oldest\n"))
    (tmp_path / "syslog").write_bytes(b"\xff not UTF-8, as it came\n")
    (tmp_path / "lastlog.log").write_bytes(b"\0\0binary\n")
    (tmp_path / "broken.log.gz").write_bytes(b"no gzip")
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt" / "history.log").write_text("a\nb\nc\n")
    found = list(machine_lines(2, tmp_path, journal=False))
    assert found == [
        ("apt/history", b"b"),
        ("apt/history", b"c"),
        ("dpkg", b"one"),
        ("dpkg", b"two"),
        ("dpkg", b"older"),
        ("dpkg", b"oldest"),
        ("syslog", b"\xff not UTF-8, as it came"),
    ]


def test_a_machine_without_readable_logs_has_none(tmp_path: Path) -> None:
    assert list(machine_lines(10, tmp_path / "nothing", journal=False)) == []


def test_the_demo_ends_with_a_search_and_its_answer(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    lines = [("kern", b"2026-11-21T10:00:%02d host kernel: disk error, request failed" % second) for second in range(3)]
    lines += [("dpkg", b"2026-11-21 10:01:00 status installed libssl3"), ("app", b"{broken")]
    said: list[str] = []
    send(cluster.bootstrap, lines, said.append)
    assert said == ["Sent 5 lines: 3 kern, 1 dpkg, 1 app"]
    aggregate_and_search(JobRun(spark, Namespace(query=None), said.append), cluster.bootstrap, tmp_path)
    asked = next(number for number, line in enumerate(said) if "tailrace-spark logs search" in line)
    assert repr(QUERIES[0]) in said[asked]
    assert said[asked + 1 :] == [
        *(f"2026-11-21 10:00:0{second} kern host kernel error: disk error, request failed" for second in range(3)),
        "3 of 4 lines match.",
        "\n3 errors in 4 lines:",
        "       3 in kern, of 3 lines",
        f"The lines are a Delta table, {tmp_path}/logs/lines: DuckDB, pandas and Spark read it.",
    ]
    assert any("4 lines, 1 dead letters (1 not JSON)" in line for line in said)

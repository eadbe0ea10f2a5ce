"""kill -9 of the driver inside OPTIMIZE and inside MERGE, at every step: the table reads as before or as after."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support import delta_driver
from support.waiting import until
from tailrace_spark.tables import delta

FILES, ROWS = 8, 20_000
START_S = 300  # of a driver: nine seconds of a machine that has nothing else to do


def rows(path: str) -> list[tuple[int, str]]:
    found = DeltaTable(path).to_pyarrow_table().to_pydict()
    return sorted(zip(found["id"], found["word"], strict=True))


def files(path: str) -> set[str]:
    """Of data, whether a commit has them or not."""
    return {file.name for file in Path(path).glob("*.parquet")}


def every_file(path: str) -> set[Path]:
    return {file for file in Path(path).rglob("*") if file.is_file()}


def place(file: Path) -> tuple[bool, str, bool, str]:
    """Where a file stands in the order of Delta: the data, then each version, and its checksum after it."""
    version = file.name.lstrip(".").partition(".")[0]
    return file.parent.name == "_delta_log", version, file.suffix != ".json", file.name


class Commit:
    """A table of several files, and the commit that is killed."""

    def __init__(self, spark: SparkSession, folder: Path, what: str) -> None:
        self.spark, self.what = spark, what
        self.table, self.source = str(folder / "table"), str(folder / "source")
        words = spark.range(ROWS).select("id", F.lit("old").alias("word"))
        words.repartition(FILES).write.format("delta").save(self.table)
        changes = spark.range(ROWS // 2, ROWS * 2).select("id", F.lit("new").alias("word"))
        changes.coalesce(1).write.format("delta").save(self.source)
        self.old = [(number, "old") for number in range(ROWS)]
        merged = [*self.old[: ROWS // 2], *((number, "new") for number in range(ROWS // 2, ROWS * 2))]
        self.after = merged if what == "merge" else self.old

    def run(self) -> None:
        """In the session of the tests."""
        if self.what == "merge":
            self.spark.sql(delta_driver.MERGE.format(delta.named(self.table), delta.named(self.source)))
        else:
            delta.optimize(self.spark, self.table, print)


@pytest.mark.parametrize("what", ["optimize", "merge"])
def test_a_driver_that_is_killed_leaves_the_table_as_before_or_as_after(
    spark: SparkSession, jars: Path, tmp_path: Path, what: str
) -> None:
    commit = Commit(spark, tmp_path, what)
    before = files(commit.table)
    command = [sys.executable, delta_driver.__file__, str(jars), str(tmp_path / "log"), what]
    driver = subprocess.Popen([*command, commit.table, commit.source], start_new_session=True)
    try:
        until(lambda: files(commit.table) - before, "a file of the commit", START_S)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and its JVM at once
        driver.wait()
    assert rows(commit.table) in (commit.old, commit.after)
    commit.run()
    assert rows(commit.table) == commit.after
    assert [tuple(row) for row in delta.read(spark, commit.table).orderBy("id").collect()] == commit.after


@pytest.mark.parametrize("what", ["optimize", "merge"])
def test_each_further_file_of_a_commit_leaves_the_table_as_before_or_as_after(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    """A commit only adds files, so a driver that dies at any step leaves the first of them."""
    commit, left = Commit(spark, tmp_path, what), tmp_path / "left"
    shutil.copytree(commit.table, left)
    begun = every_file(commit.table)
    commit.run()
    added = sorted(every_file(commit.table) - begun, key=place)
    assert begun <= every_file(commit.table) and {".parquet", ".json"} <= {file.suffix for file in added}
    for file in added:
        assert rows(str(left)) in (commit.old, commit.after), f"before {file.name}"
        shutil.copy(file, left / file.relative_to(commit.table))
    assert rows(str(left)) == commit.after

"""kill -9 of the driver inside OPTIMIZE and inside MERGE: the table reads as before or as after."""

from __future__ import annotations

import os
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


def rows(path: str) -> list[tuple[int, str]]:
    found = DeltaTable(path).to_pyarrow_table().to_pydict()
    return sorted(zip(found["id"], found["word"], strict=True))


def files(path: str) -> set[str]:
    """Of data, whether a commit has them or not."""
    return {file.name for file in Path(path).glob("*.parquet")}


@pytest.mark.parametrize("what", ["optimize", "merge"])
def test_a_driver_that_is_killed_leaves_the_table_as_before_or_as_after(
    spark: SparkSession, jars: Path, tmp_path: Path, what: str
) -> None:
    table, source = str(tmp_path / "table"), str(tmp_path / "source")
    words = spark.range(ROWS).select("id", F.lit("old").alias("word"))
    words.repartition(FILES).write.format("delta").save(table)
    changes = spark.range(ROWS // 2, ROWS * 2).select("id", F.lit("new").alias("word"))
    changes.coalesce(1).write.format("delta").save(source)
    old = [(number, "old") for number in range(ROWS)]
    merged = [*old[: ROWS // 2], *((number, "new") for number in range(ROWS // 2, ROWS * 2))]
    after = merged if what == "merge" else old
    before = files(table)
    command = [sys.executable, delta_driver.__file__, str(jars), str(tmp_path / "log"), what, table, source]
    driver = subprocess.Popen(command, start_new_session=True)
    try:
        until(lambda: files(table) - before, "a file of the commit")
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and its JVM at once
        driver.wait()
    assert rows(table) in (old, after)
    if what == "merge":
        spark.sql(delta_driver.MERGE.format(delta.named(table), delta.named(source)))
    else:
        delta.optimize(spark, table, print)
    assert rows(table) == after
    assert [tuple(row) for row in delta.read(spark, table).orderBy("id").collect()] == after

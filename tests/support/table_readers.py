"""A Delta table as others read it: pandas and polars by delta-rs, and DuckDB by its own extension."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars
from deltalake import DeltaTable
from pyspark.sql import SparkSession

# The package has the extension alone; elsewhere DuckDB fetches it by itself (INSTALL delta).
EXTENSIONS = Path(duckdb.__file__).parents[1] / "duckdb_ext" / "extensions"

POLL_SECONDS = 0.05


def rows_in_duckdb(path: str) -> int:
    """Every column of every row is fetched."""
    with duckdb.connect(config={"extension_directory": str(EXTENSIONS)}) as connection:
        connection.execute("LOAD delta")
        rows: int = connection.execute(f"select * from delta_scan('{path}')").fetch_arrow_table().num_rows
        return rows


def rows_in_pandas(path: str) -> int:
    """The same."""
    return len(DeltaTable(path).to_pandas())


def rows_in_polars(path: str) -> int:
    """The same."""
    rows: int = polars.read_delta(path).height
    return rows


def rows_for_all(spark: SparkSession, path: str) -> int:
    """The rows of a table that Spark, pandas, polars and DuckDB read alike, and that asks no feature of a reader."""
    assert DeltaTable(path).protocol().min_reader_version == 1
    rows = len(spark.read.format("delta").load(path).collect())
    assert rows == rows_in_pandas(path) == rows_in_polars(path) == rows_in_duckdb(path)
    return rows


@contextmanager
def read_meanwhile(path: str, read: Callable[[str], int]) -> Iterator[list[int]]:
    """How many rows a reader saw of each version that it came by while a job wrote the table, the last one included."""
    seen: list[int] = []
    failed: list[Exception] = []
    done = threading.Event()

    def look() -> None:
        versions, last = 0, False
        while not last:
            last = done.wait(POLL_SECONDS)
            newest = len(list(Path(path, "_delta_log").glob("*.json")))
            if newest > versions:
                versions = newest
                try:
                    seen.append(read(path))
                except Exception as error:  # noqa: BLE001 - told to the test's own thread
                    failed.append(error)
                    return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
    assert not failed, failed

"""Tables of log lines, made from static frames."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.log_frames import parsed_lines
from support.log_lines import Line
from tailrace_spark.logs import store
from tailrace_spark.logs.store import LogTables

QUERY = "query"


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> LogTables:
    """Empty ones."""
    made = LogTables(str(tmp_path / "logs"))
    made.create(spark)
    return made


@pytest.fixture
def add(spark: SparkSession, tables: LogTables) -> Callable[[list[Line]], None]:
    """Writes lines as the next batch."""
    numbers = itertools.count()

    def write(lines: list[Line]) -> None:
        assert store.write(parsed_lines(spark, lines), tables, QUERY, next(numbers)) == len(lines)

    return write

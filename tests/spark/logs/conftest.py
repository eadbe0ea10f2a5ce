"""Tables of log lines, made from static frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.log_frames import parsed_lines
from support.log_lines import Line
from tailrace_spark.logs import store
from tailrace_spark.logs.files import LocalFiles
from tailrace_spark.logs.manifest import Commit
from tailrace_spark.logs.table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An empty one."""
    return Table(LocalFiles(tmp_path / "logs"))


@pytest.fixture
def add(spark: SparkSession, table: Table) -> Callable[[list[Line]], None]:
    """Writes and commits lines."""

    def write(lines: list[Line]) -> None:
        assert table.commit(Commit(add=store.write(parsed_lines(spark, lines), table, len(lines)))) is not None

    return write

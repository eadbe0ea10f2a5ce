"""Tables of log lines and their index: written with Parquet pages so small that a search reads single blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from pyspark.sql import SparkSession

from tailrace_spark.tables import delta

BLOCK_ROWS = 2048  # also of a page, so that a block can be read alone
BLOCKS = {"block", "blocks"}  # the columns by which such a table is told from others
# A dictionary must be read whole for one page of its column.
PARQUET = {
    "parquet.page.row.count.limit": str(BLOCK_ROWS),
    "parquet.block.size": str(32 << 20),  # what a writer holds in memory
    **{f"parquet.enable.dictionary#{name}": "false" for name in ("message", "block", "offset", "term")},
}


@contextmanager
def pages(spark: SparkSession) -> Iterator[None]:
    """Parquet written inside has small pages; Delta takes such settings of the session only."""
    for key, value in PARQUET.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in PARQUET:
            spark.conf.unset(key)


def optimize(spark: SparkSession, path: str, say: delta.Say) -> int:
    """delta.optimize of any table, into small pages where it is read by blocks."""
    with pages(spark) if BLOCKS & set(delta.read(spark, path).columns) else nullcontext():
        return delta.optimize(spark, path, say)

"""Writes lines as segments: Parquet sorted by time, in blocks of rows, and the index of their terms.

Files are written into `staging`, moved to their place and named by a commit; until then no reader takes them.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace_spark.logs.files import Found
from tailrace_spark.logs.manifest import DataFile, TableSegment
from tailrace_spark.logs.schema import STORED
from tailrace_spark.logs.table import STAGING, Table
from tailrace_spark.logs.terms import terms

BLOCK_BITS = 11
BLOCK_ROWS = 1 << BLOCK_BITS  # of a block, and of a Parquet page, so that a block can be read alone
FILE_ROWS = 1_000_000
GROUP = ("source", "hour")
INDEX_SCHEMA = "term string, blocks array<bigint>, source string, hour string"
PAGES = {
    "compression": "zstd",
    "parquet.page.row.count.limit": str(BLOCK_ROWS),
    "parquet.block.size": str(32 << 20),  # what a writer holds in memory
}
# A dictionary must be read whole for one page of its column.
DATA_OPTIONS = {**PAGES, **{f"parquet.enable.dictionary#{name}": "false" for name in ("message", "block", "offset")}}
INDEX_OPTIONS = {**PAGES, "parquet.enable.dictionary": "false", "parquet.page.size": str(64 << 10)}


@dataclass(frozen=True)
class SourceHour:
    """What of one source and hour came together."""

    source: str
    hour: str


def write(lines: DataFrame, table: Table, rows: int) -> tuple[TableSegment, ...]:
    """Segments of the lines (columns of LOG), not committed yet. `rows` is about how many they are."""
    name = uuid.uuid4().hex[:12]
    staging = f"{STAGING}/{name}"
    data, index = f"{staging}/data", f"{staging}/index"
    try:
        write_data(lines, table.url(data), rows, name)
        stored = read_data(lines.sparkSession, table, data)
        write_index(stored, table.url(index), rows)
        facts = describe(stored)
        return placed(table, name, table.files.list(data), table.files.list(index), facts)
    finally:
        table.files.delete(staging)


def write_data(lines: DataFrame, url: str, rows: int, name: str) -> None:
    """Sorted by time within source and hour, in numbered blocks.

    Other writes, sources and hours have other numbers; where two have the same after all, a search reads too much.
    """
    spread = (
        lines.repartition(1)
        if rows <= FILE_ROWS
        else lines.repartitionByRange(-(-rows // FILE_ROWS), *GROUP, "timestamp")
    )
    place = F.monotonically_increasing_id()  # partition << 33 | row of the partition
    parts = (
        (F.lit(int(name[:5], 16)), 43),  # of 20 bits: other writes
        (F.pmod(F.hash(*GROUP), F.lit(1 << 15)).cast("long"), 28),
        (F.shiftright(place, 33).bitwiseAND(0xFF), 20),
        (F.shiftright(place.bitwiseAND((1 << 33) - 1), BLOCK_BITS), 0),
    )
    block = reduce(Column.bitwiseOR, (F.shiftleft(part.cast("long"), bits) for part, bits in parts))
    ordered = spread.sortWithinPartitions(*GROUP, "timestamp", "topic", "partition", "offset").withColumn(
        "block", block
    )
    ordered.write.options(**DATA_OPTIONS).option("maxRecordsPerFile", FILE_ROWS).partitionBy(*GROUP).parquet(url)


def read_data(spark: SparkSession, table: Table, root: str, paths: Iterable[str] = ()) -> DataFrame:
    """Stored lines below a folder of the table, or those files of it, with the columns of STORED."""
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")  # a source may be called 007
    urls = [table.url(path) for path in paths] or [table.url(root)]
    return spark.read.schema(STORED).option("basePath", table.url(root)).parquet(*urls)


def write_index(stored: DataFrame, url: str, rows: int) -> None:
    """One row a term, source and hour: the blocks that have it. Sorted by term, so that a search reads a page of it."""
    # Distinct first: collecting is slow where there are more than a few keys (Spark falls back to sorting).
    postings = stored.select(*GROUP, "block", F.explode(terms()).alias("term")).distinct()
    index = postings.groupBy(*GROUP, "term").agg(F.sort_array(F.collect_list("block")).alias("blocks"))
    spread = (
        index.repartition(1) if rows <= FILE_ROWS else index.repartitionByRange(-(-rows // FILE_ROWS), *GROUP, "term")
    )
    spread.sortWithinPartitions(*GROUP, "term").write.options(**INDEX_OPTIONS).partitionBy(*GROUP).parquet(url)


def describe(stored: DataFrame) -> dict[tuple[str, str, str], Any]:
    """Rows, times and blocks of each file, by source, hour and file name."""
    found = stored.groupBy(*GROUP, F.col("_metadata.file_name").alias("file")).agg(
        F.count("*").alias("rows"),
        F.unix_micros(F.min("timestamp")).alias("first_us"),
        F.unix_micros(F.max("timestamp")).alias("last_us"),
        F.min("block").alias("first_block"),
        F.max("block").alias("last_block"),
    )
    return {(row.source, row.hour, row.file): row for row in found.collect()}


def placed(
    table: Table, name: str, data: list[Found], index: list[Found], facts: dict[Any, Any]
) -> tuple[TableSegment, ...]:
    """Moves the files to their place; returns the segments they are."""
    files: dict[SourceHour, list[DataFile]] = defaultdict(list)
    times: dict[SourceHour, list[int]] = defaultdict(list)
    indexes: dict[SourceHour, list[tuple[str, int]]] = defaultdict(list)
    for number, found in enumerate(data):
        group = group_of(found.path)
        fact = facts[group.source, group.hour, found.path.rpartition("/")[2]]
        path = settle(table, found, "data", f"{name}-{number:05}")
        files[group].append(DataFile(path, fact.rows, found.size_bytes, fact.first_block, fact.last_block))
        times[group] += [fact.first_us, fact.last_us]
    for number, found in enumerate(index):
        path = settle(table, found, "index", f"{name}-{number:05}")
        indexes[group_of(found.path)].append((path, found.size_bytes))
    return tuple(
        TableSegment(
            f"{name}/{group.source}/{group.hour}",
            group.source,
            group.hour,
            tuple(sorted(files[group], key=lambda file: file.first_block)),
            tuple(indexes[group]),
            min(times[group]),
            max(times[group]),
        )
        for group in files
    )


def group_of(path: str) -> SourceHour:
    """Of a file in folders source=S/hour=H, as Spark names them."""
    source, hour = path.split("/")[-3:-1]
    return SourceHour(unquote(source.removeprefix("source=")), unquote(hour.removeprefix("hour=")))


def settle(table: Table, found: Found, kind: str, name: str) -> str:
    """Moves a staged file to where it stays."""
    folders = "/".join(found.path.split("/")[-3:-1])
    path = f"{kind}/{folders}/{name}.parquet"
    table.files.move(found.path, path)
    return path

"""Writes lines into two Delta tables: `lines`, by source and hour, and `index`, which block of lines has which term.

A block is up to BLOCK_ROWS lines of one batch, source and hour; its number stands in each of its lines, so that the
index stays right wherever OPTIMIZE moves them. The number begins with the query and the batch. The index of a batch is
committed before its lines: what the index's log says of batches is what has been indexed (`covered`), and a line of
another number, or of none, is searched without it. A new index beside older lines says first which
batches it lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tailrace_spark.logs.schema import INDEX, STORED
from tailrace_spark.logs.terms import terms
from tailrace_spark.tables import delta, paged
from tailrace_spark.tables.paged import BLOCK_ROWS

RUN_BITS, GROUP_BITS, BATCH_BITS, QUERY_BITS = 13, 12, 26, 12
BEFORE = "before "  # no query's id begins so
GROUP = ("source", "hour")
ORDER = ("timestamp", "topic", "partition", "offset")
STATISTICS = {"delta.dataSkippingStatsColumns": "timestamp,block"}


@dataclass(frozen=True)
class LogTables:
    """Where the two tables are."""

    folder: str

    @property
    def lines(self) -> str:
        """One row a line, columns of STORED."""
        return f"{self.folder.rstrip('/')}/lines"

    @property
    def index(self) -> str:
        """One row a term, source, hour and batch."""
        return f"{self.folder.rstrip('/')}/index"

    def create(self, spark: SparkSession) -> None:
        """Makes them where they are not there."""
        delta.create(spark, self.lines, STORED, GROUP, **STATISTICS)
        delta.create(spark, self.index, INDEX, GROUP, **{"delta.dataSkippingStatsColumns": "term"})

    def optimize(self, spark: SparkSession, say: delta.Say) -> int:
        """Compacts both; returns how many files went."""
        return sum(paged.optimize(spark, path, say) for path in (self.index, self.lines))


def write(lines: DataFrame, tables: LogTables, query: str, batch: int) -> int:
    """Adds the lines (columns of LOG) of a query's batch, once however often; returns how many they are."""
    numbered = lines.withColumn("block", block(query, batch)).persist()
    try:
        rows: int = numbered.count()
        with paged.pages(lines.sparkSession):
            begin(lines.sparkSession, tables, query, batch)
            delta.append(index_of(numbered), tables.index, query, batch)
            delta.append(numbered, tables.lines, query, batch)
        return rows
    finally:
        numbered.unpersist()


def begin(spark: SparkSession, tables: LogTables, query: str, batch: int) -> None:
    """Says in an index that has no batch of the query yet that it lacks those before this one."""
    if batch and query not in delta.snapshot(spark, tables.index).batches:
        delta.append(delta.read(spark, tables.index).where("false"), tables.index, before(query), batch - 1)


def before(query: str) -> str:
    """The name under which the index's log has the last batch of a query that is not indexed."""
    return f"{BEFORE}{query}"


def first_block(query: str, batch: int) -> int:
    """All blocks of the batch are from this on, and before that of the next."""
    name = zlib.crc32(query.encode()) % (1 << QUERY_BITS)
    return ((name << BATCH_BITS) + batch) << (GROUP_BITS + RUN_BITS)


def block(query: str, batch: int) -> Column:
    """A line's block: the same in every attempt at the batch."""
    place = F.row_number().over(Window.partitionBy(*GROUP).orderBy(*ORDER)) - 1
    run = F.least(F.floor(place / BLOCK_ROWS), F.lit((1 << RUN_BITS) - 1)).cast("long")
    group = F.pmod(F.hash(*GROUP), F.lit(1 << GROUP_BITS)).cast("long")  # two in one: a search reads too much
    return F.lit(first_block(query, batch)) + F.shiftleft(group, RUN_BITS) + run


def covered(batches: Mapping[str, int]) -> list[tuple[int, int]]:
    """First and last of the blocks that are indexed, from what the index's log says of the batches of each query."""
    return sorted(
        (first_block(query, batches.get(before(query), -1) + 1), first_block(query, last + 1) - 1)
        for query, last in batches.items()
        if not query.startswith(BEFORE)
    )


def index_of(numbered: DataFrame) -> DataFrame:
    """One row a term, source and hour: the blocks that have it. Sorted by term, so that a search reads a page of it."""
    # Distinct first: collecting is slow where there are more than a few keys (Spark falls back to sorting).
    postings = numbered.select(*GROUP, "block", F.explode(terms()).alias("term")).distinct()
    index = postings.groupBy(*GROUP, "term").agg(F.sort_array(F.collect_list("block")).alias("blocks"))
    return index.repartition(*GROUP).sortWithinPartitions(*GROUP, "term").select(*INDEX.fieldNames())

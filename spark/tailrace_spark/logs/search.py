"""Answers a search: newest segments first, the index for the blocks, the blocks for the lines, and what that took.

Memory holds one step's blocks and the lines to show, however large the table is.
"""

from __future__ import annotations

import heapq
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from tailrace_spark.logs import query as language
from tailrace_spark.logs.manifest import DataFile, TableSegment, newest_first
from tailrace_spark.logs.measure import bytes_read
from tailrace_spark.logs.query import And, Not, Phrase, Query, Term
from tailrace_spark.logs.store import INDEX_SCHEMA, read_data
from tailrace_spark.logs.table import Table
from tailrace_spark.logs.terms import terms, text

FIRST_ROWS, MOST_ROWS = 1 << 20, 1 << 25  # lines of the segments that one step looks at
RANGES = 128  # of blocks, in one read
SHOWN = ("timestamp", "source", "severity", "host", "service", "message", "topic", "partition", "offset")


@dataclass(frozen=True)
class Ask:
    """What is wanted. Times in microseconds since 1970, `until_us` excluded."""

    query: Query
    since_us: int | None = None
    until_us: int | None = None
    source: str | None = None
    limit: int = 20

    def overlaps(self, segment: TableSegment) -> bool:
        """False where no line of the segment can be asked for."""
        return (
            (self.source is None or segment.source == self.source)
            and (self.since_us is None or segment.last_us >= self.since_us)
            and (self.until_us is None or segment.first_us < self.until_us)
        )

    def lines(self) -> Column:
        """The exact condition."""
        found = condition(self.query)
        if self.since_us is not None:
            found &= F.col("timestamp") >= F.timestamp_micros(F.lit(self.since_us))
        if self.until_us is not None:
            found &= F.col("timestamp") < F.timestamp_micros(F.lit(self.until_us))
        return found


@dataclass(frozen=True)
class SearchCost:
    """What a search took. Bytes are those that Spark's tasks read from storage, footers and index included."""

    bytes_total: int = 0
    bytes_read: int = 0
    segments: int = 0
    segments_read: int = 0
    files: int = 0
    files_read: int = 0
    lines: int = 0
    lines_read: int = 0
    matches: int = 0  # among the lines read
    whole: bool = True  # False: it ended early, because all that is left is older than what is shown

    def __str__(self) -> str:
        if self.bytes_read > self.bytes_total:  # of a small table
            scanned = f"{self.bytes_read:,} bytes (the table has {self.bytes_total:,}; footers and index come on top)"
        else:
            share = 100 * self.bytes_read / max(self.bytes_total, 1)
            scanned = f"{self.bytes_read:,} of {self.bytes_total:,} bytes ({share:.2f} %)"
        found = (
            f"{self.matches:,} lines match" if self.whole else f"{self.matches:,} lines match so far, older ones left"
        )
        return (
            f"{found}; scanned {scanned}, "
            f"{self.files_read:,} of {self.files:,} files, {self.lines_read:,} of {self.lines:,} lines"
        )


@dataclass
class FoundLines:
    """The newest lines that match, newest first."""

    rows: list[Row] = field(default_factory=list)
    scan: SearchCost = field(default_factory=SearchCost)


def search(spark: SparkSession, table: Table, ask: Ask, first_rows: int = FIRST_ROWS) -> FoundLines:
    """The newest `ask.limit` lines."""
    every = list(table.state().segments.values())
    wanted = newest_first(segment for segment in every if ask.overlaps(segment))
    answer = FoundLines(scan=total(every))
    steps = list(steps_of(wanted, first_rows))
    for number, step in enumerate(steps):
        with bytes_read(spark, f"search {uuid.uuid4()}") as counted:
            look(spark, table, ask, step, answer)
        answer.scan = replace(answer.scan, bytes_read=answer.scan.bytes_read + counted.value)
        left = steps[number + 1 :]
        if left and done(ask, answer, max(segment.last_us for segment in left[0])):
            answer.scan = replace(answer.scan, whole=False)
            break
    return answer


def total(segments: Iterable[TableSegment]) -> SearchCost:
    """The table's size."""
    every = list(segments)
    return SearchCost(
        bytes_total=sum(segment.size_bytes for segment in every),
        segments=len(every),
        files=sum(len(segment.paths) for segment in every),
        lines=sum(segment.rows for segment in every),
    )


def steps_of(segments: Sequence[TableSegment], first_rows: int) -> Iterator[list[TableSegment]]:
    """Segments in their order, in runs that double: a search for what is frequent ends early, others need few jobs."""
    run: list[TableSegment] = []
    bound = first_rows
    for segment in segments:
        run.append(segment)
        if sum(each.rows for each in run) >= bound:
            yield run
            run, bound = [], min(2 * bound, MOST_ROWS)
    if run:
        yield run


def done(ask: Ask, answer: FoundLines, newest_left_us: int) -> bool:
    """True where nothing that is left is newer than the oldest line shown."""
    return len(answer.rows) >= ask.limit and micros(answer.rows[-1]) >= newest_left_us


def look(spark: SparkSession, table: Table, ask: Ask, segments: Sequence[TableSegment], answer: FoundLines) -> None:
    """One step: adds its lines and its cost to the answer."""
    files = [file for segment in segments for file in segment.data]
    ranges = [(file.first_block, file.last_block) for file in files]
    scan = replace(answer.scan, segments_read=answer.scan.segments_read + len(segments))
    if language.uses_index(ask.query):
        scan = replace(scan, files_read=scan.files_read + sum(len(segment.index) for segment in segments))
        ranges = runs(blocks(spark, table, ask.query, segments))
    for start in range(0, len(ranges), RANGES):
        part = ranges[start : start + RANGES]
        chosen = [file for file in files if touches(file, part)]
        if not chosen:
            continue
        rows, read, matched = take(read_data(spark, table, "data", (file.path for file in chosen)), part, ask)
        scan = replace(
            scan,
            files_read=scan.files_read + len(chosen),
            lines_read=scan.lines_read + read,
            matches=scan.matches + matched,
        )
        answer.rows = heapq.nlargest(ask.limit, [*answer.rows, *rows], key=micros)
    answer.scan = scan


def blocks(spark: SparkSession, table: Table, query: Query, segments: Sequence[TableSegment]) -> list[int]:
    """The blocks that may hold such lines, by the index."""
    asked = language.lookups(query)
    paths = [table.url(path) for segment in segments for path, _ in segment.index]
    if not paths:
        return []
    index = spark.read.schema(INDEX_SCHEMA).option("basePath", table.url("index")).parquet(*paths)
    hits = index.where(reduce(Column.__or__, map(holds, asked))).select("term", F.explode("blocks").alias("block"))
    flags = [F.max(holds(term)).alias(f"has{number}") for number, term in enumerate(asked)]
    by_block = hits.groupBy("block").agg(*flags)
    columns = {term: F.col(f"has{number}") for number, term in enumerate(asked)}
    return sorted(row.block for row in by_block.where(may_hold(query, columns)).select("block").collect())


def holds(term: Term) -> Column:
    """Index rows of the term."""
    return F.col("term").startswith(term.text) if term.prefix else F.col("term") == term.text


def may_hold(query: Query, has: dict[Term, Column]) -> Column:
    """query.possible as a condition."""
    if isinstance(query, Term):
        return has[query]
    if isinstance(query, Phrase):
        return reduce(Column.__and__, (has[word] for word in query.words), F.lit(True))
    if isinstance(query, Not):
        return F.lit(True)
    join = Column.__and__ if isinstance(query, And) else Column.__or__
    return reduce(join, (may_hold(part, has) for part in query.parts))


def condition(query: Query) -> Column:
    """Which lines match, over columns of LOG."""
    if isinstance(query, Term):
        if not query.prefix:
            return F.array_contains(terms(), query.text)
        return F.exists(terms(), lambda term: term.startswith(query.text))
    if isinstance(query, Phrase):
        return text().rlike(phrase_pattern(query.text))
    if isinstance(query, Not):
        return ~condition(query.part)
    join = Column.__and__ if isinstance(query, And) else Column.__or__
    return reduce(join, map(condition, query.parts))


def phrase_pattern(phrase: str) -> str:
    """For Java: the phrase, not in the middle of a word."""
    before = r"(?<![\p{L}\p{N}_])" if re.match(r"\w", phrase) else ""
    after = r"(?![\p{L}\p{N}_])" if re.search(r"\w$", phrase) else ""
    quoted = phrase.replace("\\E", r"\E\\E\Q")
    return rf"{before}\Q{quoted}\E{after}"


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as runs of neighbours, the highest first: (first, last)."""
    found: list[tuple[int, int]] = []
    for number in reversed(numbers):
        if found and found[-1][0] == number + 1:
            found[-1] = (number, found[-1][1])
        else:
            found.append((number, number))
    return found


def touches(file: DataFile, ranges: Sequence[tuple[int, int]]) -> bool:
    """True where the file has a block of these."""
    return any(first <= file.last_block and last >= file.first_block for first, last in ranges)


def within(ranges: Sequence[tuple[int, int]]) -> Column:
    """As a balanced tree: Spark's planner recurses."""
    if len(ranges) == 1:
        return F.col("block").between(*ranges[0])
    middle = len(ranges) // 2
    return within(ranges[:middle]) | within(ranges[middle:])


def take(stored: DataFrame, ranges: Sequence[tuple[int, int]], ask: Ask) -> tuple[list[Row], int, int]:
    """The newest lines of these blocks that match, how many lines were read, and how many match."""
    read, matched = Observation(), Observation()
    lines = stored.where(within(ranges)).observe(read, F.count(F.lit(1)).alias("lines"))
    found = lines.where(ask.lines()).observe(matched, F.count(F.lit(1)).alias("lines"))
    newest = found.select(*SHOWN, F.unix_micros("timestamp").alias("us")).orderBy(F.desc("timestamp")).limit(ask.limit)
    rows = newest.collect()
    return rows, read.get["lines"], matched.get["lines"]


def micros(row: Row) -> int:
    """The line's time, microseconds since 1970."""
    found: Any = row.us
    return int(found)

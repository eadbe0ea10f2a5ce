"""Answers a search: the newest hours first, the index for the blocks, the blocks for the lines, and what that took.

Memory holds one step's blocks and the lines to show, however large the table is.
"""

from __future__ import annotations

import heapq
import itertools
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from tailrace_spark.logs import query as language
from tailrace_spark.logs.measure import bytes_read
from tailrace_spark.logs.query import And, Not, Phrase, Query, Term
from tailrace_spark.logs.store import LogTables, covered
from tailrace_spark.logs.terms import terms, text
from tailrace_spark.tables import delta

FIRST_ROWS, MOST_ROWS = 1 << 20, 1 << 25  # lines of the hours that one step looks at
RANGES = 128  # of blocks, in one read
SHOWN = ("timestamp", "source", "severity", "host", "service", "message", "topic", "partition", "offset")
Ranges = Sequence[tuple[int, int]]  # of blocks: first and last


@dataclass(frozen=True)
class Ask:
    """What is wanted. Times in microseconds since 1970, `until_us` excluded."""

    query: Query
    since_us: int | None = None
    until_us: int | None = None
    source: str | None = None
    limit: int = 20

    def overlaps(self, part: HourPart) -> bool:
        """False where no line of an hour and source can be asked for."""
        return (
            (self.source is None or part.source == self.source)
            and (self.since_us is None or part.hour >= hour_of(self.since_us))
            and (self.until_us is None or part.hour <= hour_of(self.until_us - 1))
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
class HourPart:
    """The lines of one source and hour, as the table's log has them."""

    hour: str
    source: str
    rows: int
    is_indexed: bool  # all of them


@dataclass(frozen=True)
class SearchCost:
    """What a search took. Bytes are those that Spark's tasks read from storage, footers and index included."""

    bytes_total: int = 0
    bytes_read: int = 0
    lines: int = 0
    lines_read: int = 0
    lines_without_index: int = 0  # among the lines read
    parts: int = 0  # sources and hours
    parts_read: int = 0
    matches: int = 0  # among the lines read
    whole: bool = True  # False: it ended early, because all that is left is older than what is shown

    def __str__(self) -> str:
        if self.bytes_read > self.bytes_total:  # of a small table
            read = f"{self.bytes_read:,} bytes (the table has {self.bytes_total:,}; footers and index come on top)"
        else:
            share = 100 * self.bytes_read / max(self.bytes_total, 1)
            read = f"{self.bytes_read:,} of {self.bytes_total:,} bytes ({share:.2f} %)"
        found = (
            f"{self.matches:,} lines match" if self.whole else f"{self.matches:,} lines match so far, older ones left"
        )
        summary = f"{found}; read {read}, {self.lines_read:,} of {self.lines:,} lines"
        if self.lines_without_index:
            summary += f", {self.lines_without_index:,} of them not indexed yet"
        return summary


@dataclass
class FoundLines:
    """The newest lines that match, newest first."""

    rows: list[Row] = field(default_factory=list)
    scan: SearchCost = field(default_factory=SearchCost)


def search(spark: SparkSession, tables: LogTables, ask: Ask, first_rows: int = FIRST_ROWS) -> FoundLines:
    """The newest `ask.limit` lines."""
    table, index = delta.snapshot(spark, tables.lines), indexed(spark, tables)
    blocks = covered(index.batches) if index else []
    every = parts_of(table, blocks)
    wanted = [part for part in every if ask.overlaps(part)]
    size = table.size_bytes + (index.size_bytes if index else 0)
    answer = FoundLines(scan=SearchCost(bytes_total=size, lines=sum(part.rows for part in every), parts=len(every)))
    steps = list(steps_of(wanted, first_rows))
    for number, step in enumerate(steps):
        with bytes_read(spark, f"search {uuid.uuid4()}") as counted:
            look(spark, tables, ask, step, blocks, answer)
        answer.scan = replace(answer.scan, bytes_read=answer.scan.bytes_read + counted.value)
        if number + 1 < len(steps) and len(answer.rows) >= ask.limit:  # all that is left is of older hours
            answer.scan = replace(answer.scan, whole=False)
            break
    return answer


def indexed(spark: SparkSession, tables: LogTables) -> delta.TableVersion | None:
    """The index; None where there is none."""
    return delta.snapshot(spark, tables.index) if delta.is_table(spark, tables.index) else None


def parts_of(table: delta.TableVersion, blocks: Ranges) -> list[HourPart]:
    """All hours and sources, the newest hour first."""
    said = {
        name: F.get_json_object("stats", path).cast("long")
        for name, path in {
            "rows": "$.numRecords",
            "first": "$.minValues.block",
            "last": "$.maxValues.block",
            "without": "$.nullCount.block",
        }.items()
    }
    file = table.files.select(
        F.col("partitionValues.hour").alias("hour"),
        F.col("partitionValues.source").alias("source"),
        *(column.alias(name) for name, column in said.items()),
    )
    inside = [(F.col("first") >= low) & (F.col("last") <= high) for low, high in blocks]
    whole = (F.col("without") == 0) & reduce(Column.__or__, inside, F.lit(False))
    rows = file.groupBy("hour", "source").agg(
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.min(F.coalesce(whole, F.lit(False))).alias("is_indexed"),
    )
    parts = [HourPart(row.hour, row.source, row.rows, row.is_indexed) for row in rows.collect()]
    return sorted(parts, key=lambda part: (part.hour, part.source), reverse=True)


def hour_of(us: int) -> str:
    """The hour of a time, as the table names it."""
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us):%Y-%m-%d-%H}"


def steps_of(parts: Sequence[HourPart], first_rows: int) -> Iterator[list[HourPart]]:
    """Whole hours in their order, in runs that double: what is frequent is found early, the rest needs few jobs."""
    run: list[HourPart] = []
    bound = first_rows
    for _hour, together in itertools.groupby(parts, key=lambda part: part.hour):
        run += together
        if sum(part.rows for part in run) >= bound:
            yield run
            run, bound = [], min(2 * bound, MOST_ROWS)
    if run:
        yield run


def look(
    spark: SparkSession, tables: LogTables, ask: Ask, parts: Sequence[HourPart], indexed: Ranges, answer: FoundLines
) -> None:
    """One step: adds its lines and its cost to the answer."""
    answer.scan = replace(answer.scan, parts_read=answer.scan.parts_read + len(parts))
    stored = of_parts(delta.read(spark, tables.lines), ask, parts)
    if not language.uses_index(ask.query):
        take(stored, ask, answer)
        return
    if indexed:
        found = runs(blocks(of_parts(delta.read(spark, tables.index), ask, parts), ask.query))
        for start in range(0, len(found), RANGES):
            take(stored.where(within(found[start : start + RANGES])), ask, answer)
    if not all(part.is_indexed for part in parts):
        outside = F.col("block").isNull() | (~within(indexed) if indexed else F.lit(True))
        read = take(stored.where(outside), ask, answer)
        answer.scan = replace(answer.scan, lines_without_index=answer.scan.lines_without_index + read)


def of_parts(rows: DataFrame, ask: Ask, parts: Sequence[HourPart]) -> DataFrame:
    """The rows of a table's hours, and of the source if one is asked for."""
    found = rows.where(F.col("hour").between(parts[-1].hour, parts[0].hour))
    return found if ask.source is None else found.where(F.col("source") == ask.source)


def blocks(index: DataFrame, query: Query) -> list[int]:
    """The blocks that may hold such lines, by the index."""
    asked = language.lookups(query)
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


def within(ranges: Ranges) -> Column:
    """As a balanced tree: Spark's planner recurses."""
    if len(ranges) == 1:
        return F.col("block").between(*ranges[0])
    middle = len(ranges) // 2
    return within(ranges[:middle]) | within(ranges[middle:])


def take(stored: DataFrame, ask: Ask, answer: FoundLines) -> int:
    """Adds the newest of these lines that match, and their cost, to the answer; returns how many lines it read."""
    read, matched = Observation(), Observation()
    lines = stored.observe(read, F.count(F.lit(1)).alias("lines"))
    found = lines.where(ask.lines()).observe(matched, F.count(F.lit(1)).alias("lines"))
    newest = found.select(*SHOWN, F.unix_micros("timestamp").alias("us")).orderBy(F.desc("timestamp")).limit(ask.limit)
    answer.rows = heapq.nlargest(ask.limit, [*answer.rows, *newest.collect()], key=micros)
    scan = answer.scan
    answer.scan = replace(
        scan, lines_read=scan.lines_read + read.get["lines"], matches=scan.matches + matched.get["lines"]
    )
    return int(read.get["lines"])


def micros(row: Row) -> int:
    """The line's time, microseconds since 1970."""
    found: Any = row.us
    return int(found)

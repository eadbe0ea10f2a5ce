"""A search by the index gives what looking at every line gives, whatever the files are; and it tells what it took."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support.log_frames import parsed_lines
from support.log_lines import BEGAN, lines
from tailrace_spark.logs import query, store
from tailrace_spark.logs.compact import compact
from tailrace_spark.logs.files import LocalFiles
from tailrace_spark.logs.manifest import Commit
from tailrace_spark.logs.search import Ask, SearchCost, condition, search
from tailrace_spark.logs.store import read_data
from tailrace_spark.logs.table import Table

SEARCHES = (
    "error AND timeout",
    "req-000017 OR req-000018 OR 10.0.1.7",
    '"connection reset" severity:error NOT service:cart',
    '"timeout after 3000" source:web',
    "service:cart ms:7* OR path:/cart*",
    "NOT info",
    "nothing-like-this",
)
MANY = 10_000


def us(when: datetime) -> int:
    return round((when - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    table = Table(LocalFiles(tmp_path_factory.mktemp("filled") / "logs"))
    every = list(lines(1000, seed=3, broken_every=0))
    for part in (every[:500], every[500:]):
        assert table.commit(Commit(add=store.write(parsed_lines(spark, part), table, len(part)))) is not None
    return table


@pytest.fixture
def copied(filled: Table, tmp_path: Path) -> Table:
    """For what changes it."""
    shutil.copytree(filled.files.url.removeprefix("file://"), tmp_path / "logs")
    return Table(LocalFiles(tmp_path / "logs"))


def found(spark: SparkSession, table: Table, text: str) -> list[int]:
    ask = Ask(query.parse(text), limit=MANY)
    return [row.us for row in search(spark, table, ask).rows]


def by_looking(spark: SparkSession, table: Table, *texts: str) -> dict[str, list[int]]:
    """The times of the lines that match, by looking at each line once."""
    paths = [file.path for segment in table.state().segments.values() for file in segment.data]
    every = read_data(spark, table, "data", paths)
    conditions = [condition(query.parse(text)).alias(f"c{number}") for number, text in enumerate(texts)]
    rows = every.select(F.unix_micros("timestamp").alias("us"), *conditions).orderBy(F.desc("us")).collect()
    return {text: [row.us for row in rows if row[f"c{number}"]] for number, text in enumerate(texts)}


def test_the_index_finds_what_looking_at_every_line_finds_also_after_a_compaction(
    spark: SparkSession, copied: Table
) -> None:
    expected = by_looking(spark, copied, *SEARCHES)
    assert {text: found(spark, copied, text) for text in SEARCHES} == expected
    assert len(expected["req-000017 OR req-000018 OR 10.0.1.7"]) >= 2 and len(expected["error AND timeout"]) > 5
    assert compact(spark, copied, print, min_segments=2, most=3) == 6
    assert len(copied.state().segments) == 17
    assert {text: found(spark, copied, text) for text in SEARCHES} == expected


def test_the_newest_come_first_and_older_files_are_left_alone(spark: SparkSession, filled: Table) -> None:
    whole = by_looking(spark, filled, "request*")["request*"]
    answer = search(spark, filled, Ask(query.parse("request*"), limit=5), first_rows=100)
    assert [row.us for row in answer.rows] == whole[:5]
    assert not answer.scan.whole
    assert answer.scan.segments_read < answer.scan.segments == 20


def test_times_bound_a_search(spark: SparkSession, filled: Table) -> None:
    since, until = us(BEGAN), us(BEGAN + timedelta(hours=1))
    expected = [at for at in by_looking(spark, filled, "timeout")["timeout"] if since <= at < until]
    answer = search(spark, filled, Ask(query.parse("timeout"), since, until, limit=MANY))
    assert [row.us for row in answer.rows] == expected != []
    assert answer.scan.segments_read == 10  # one hour of two


def test_a_rare_word_is_read_from_few_files(spark: SparkSession, filled: Table) -> None:
    answer = search(spark, filled, Ask(query.parse("req-000017")))
    assert answer.scan.matches == 1
    assert answer.scan.lines_read < 100 < answer.scan.lines == 1000
    assert answer.scan.bytes_read > 0
    assert "1 lines match; scanned " in str(answer.scan)


def test_no_share_above_all_of_a_table_is_told() -> None:
    """A small table's footers and index are more than what they save."""
    assert "scanned 250 of 1,000 bytes (25.00 %), " in str(SearchCost(bytes_total=1000, bytes_read=250))
    assert "scanned 1,060 bytes (the table has 1,000; " in str(SearchCost(bytes_total=1000, bytes_read=1060))
    assert "scanned 0 of 0 bytes (0.00 %), " in str(SearchCost())

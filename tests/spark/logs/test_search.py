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
from tailrace_spark.logs.search import Ask, SearchCost, condition, search
from tailrace_spark.logs.store import LogTables
from tailrace_spark.tables import delta

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
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LogTables:
    tables = LogTables(str(tmp_path_factory.mktemp("filled") / "logs"))
    tables.create(spark)
    every = list(lines(1000, seed=3, broken_every=0))
    for number, part in enumerate((every[:500], every[500:])):
        store.write(parsed_lines(spark, part), tables, "query", number)
    return tables


@pytest.fixture
def copied(filled: LogTables, tmp_path: Path) -> LogTables:
    """For what changes it."""
    shutil.copytree(filled.folder, tmp_path / "logs")
    return LogTables(str(tmp_path / "logs"))


def found(spark: SparkSession, tables: LogTables, text: str) -> list[int]:
    ask = Ask(query.parse(text), limit=MANY)
    return [row.us for row in search(spark, tables, ask).rows]


def by_looking(spark: SparkSession, tables: LogTables, *texts: str) -> dict[str, list[int]]:
    """The times of the lines that match, by looking at each line once."""
    every = delta.read(spark, tables.lines)
    conditions = [condition(query.parse(text)).alias(f"c{number}") for number, text in enumerate(texts)]
    rows = every.select(F.unix_micros("timestamp").alias("us"), *conditions).orderBy(F.desc("us")).collect()
    return {text: [row.us for row in rows if row[f"c{number}"]] for number, text in enumerate(texts)}


def test_the_index_finds_what_looking_at_every_line_finds_also_after_a_compaction(
    spark: SparkSession, copied: LogTables
) -> None:
    expected = by_looking(spark, copied, *SEARCHES)
    assert {text: found(spark, copied, text) for text in SEARCHES} == expected
    assert len(expected["req-000017 OR req-000018 OR 10.0.1.7"]) >= 2 and len(expected["error AND timeout"]) > 5
    said: list[str] = []
    assert copied.optimize(spark, said.append) == 40
    assert said == [f"{path}: 20 files compacted into 10" for path in (copied.index, copied.lines)]
    assert {text: found(spark, copied, text) for text in SEARCHES[:2]} == {
        text: expected[text] for text in SEARCHES[:2]
    }
    rare = search(spark, copied, Ask(query.parse("req-000017"))).scan
    assert rare.matches == 1 and rare.lines_read < 200 and rare.lines_without_index == 0


def test_what_is_not_indexed_is_looked_at_and_said(spark: SparkSession, copied: LogTables) -> None:
    """Lines that another program added, and lines whose index is gone."""
    rare = parsed_lines(spark, list(lines(30, seed=11, broken_every=0))).withColumn("block", F.lit(None).cast("long"))
    rare.write.format("delta").mode("append").save(copied.lines)
    delta.optimize(spark, copied.lines, print)
    expected = by_looking(spark, copied, "error AND timeout", "req-000017")
    answer = search(spark, copied, Ask(query.parse("req-000017"), limit=MANY))
    assert [row.us for row in answer.rows] == expected["req-000017"] and len(answer.rows) == 2
    assert answer.scan.lines_without_index == 30
    assert str(answer.scan).endswith(" of 1,030 lines, 30 of them not indexed yet")
    shutil.rmtree(copied.index)
    answer = search(spark, copied, Ask(query.parse("error AND timeout"), limit=MANY))
    assert [row.us for row in answer.rows] == expected["error AND timeout"]
    assert answer.scan.lines_without_index == 1030


def test_the_newest_come_first_and_older_files_are_left_alone(spark: SparkSession, filled: LogTables) -> None:
    whole = by_looking(spark, filled, "request*")["request*"]
    answer = search(spark, filled, Ask(query.parse("request*"), limit=5), first_rows=100)
    assert [row.us for row in answer.rows] == whole[:5]
    assert not answer.scan.whole
    assert answer.scan.parts_read == 5 < answer.scan.parts == 10


def test_times_bound_a_search(spark: SparkSession, filled: LogTables) -> None:
    since, until = us(BEGAN), us(BEGAN + timedelta(hours=1))
    expected = [at for at in by_looking(spark, filled, "timeout")["timeout"] if since <= at < until]
    answer = search(spark, filled, Ask(query.parse("timeout"), since, until, limit=MANY))
    assert [row.us for row in answer.rows] == expected != []
    assert answer.scan.parts_read == 5  # one hour of two


def test_a_rare_word_is_read_from_few_files(spark: SparkSession, filled: LogTables) -> None:
    answer = search(spark, filled, Ask(query.parse("req-000017")))
    assert answer.scan.matches == 1
    assert answer.scan.lines_read < 100 < answer.scan.lines == 1000
    assert answer.scan.bytes_read > 0
    assert "1 lines match; read " in str(answer.scan)


def test_no_share_above_all_of_a_table_is_told() -> None:
    """A small table's footers and index are more than what they save."""
    assert "read 250 of 1,000 bytes (25.00 %), " in str(SearchCost(bytes_total=1000, bytes_read=250))
    assert "read 1,060 bytes (the table has 1,000; " in str(SearchCost(bytes_total=1000, bytes_read=1060))
    assert "read 0 of 0 bytes (0.00 %), " in str(SearchCost())

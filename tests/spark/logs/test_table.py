"""A reader sees each line once, whatever dies at whatever moment."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pyarrow.parquet import ParquetFile
from pyspark.sql import SparkSession

from support.log_frames import parsed_lines
from support.log_lines import Line, lines
from tailrace_spark.job import JobRun
from tailrace_spark.logs import query, store
from tailrace_spark.logs.search import Ask, search
from tailrace_spark.logs.store import LogTables, covered, first_block
from tailrace_spark.tables import delta, optimize_job

QUERY = "query"


class Killed(Exception):
    """The driver is gone."""


@contextmanager
def killed_before(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The driver dies before the commit that is numbered so."""
    commits = iter(range(number + 1))
    whole = delta.append

    def append(*given: object) -> None:
        if next(commits) == number:
            raise Killed
        whole(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(delta, "append", append)
        with pytest.raises(Killed):
            yield


def offsets(spark: SparkSession, tables: LogTables) -> Counter[int]:
    return Counter(row.offset for row in delta.read(spark, tables.lines).select("offset").collect())


def web(count: int, seed: int) -> list[Line]:
    return [line._replace(source="web") for line in lines(count, seed, broken_every=0, hours=1)]


def assert_pages(spark: SparkSession, tables: LogTables) -> None:
    """A page of the lines can be read alone."""
    for path in delta.read(spark, tables.lines).inputFiles():
        columns = ParquetFile(path.removeprefix("file://")).metadata.row_group(0).to_dict()["columns"]
        for name in ("message", "block"):
            assert [column["has_dictionary_page"] for column in columns if column["path_in_schema"] == name] == [False]
        assert {column["compression"] for column in columns} == {"ZSTD"}


@pytest.mark.parametrize("commit", [0, 1])
def test_a_driver_killed_before_either_commit_loses_and_repeats_nothing(
    spark: SparkSession, tables: LogTables, monkeypatch: pytest.MonkeyPatch, commit: int
) -> None:
    frame = parsed_lines(spark, web(40, 5))
    with killed_before(commit, monkeypatch):
        store.write(frame, tables, QUERY, 0)
    assert offsets(spark, tables) == {}, "as before"
    for _ in range(2):  # done again, and once more after a death behind the last commit
        store.write(frame, tables, QUERY, 0)
        assert offsets(spark, tables) == Counter(range(40)), "as after"
    found = search(spark, tables, Ask(query.parse("req*"), limit=100))
    assert len(found.rows) == 40 and found.scan.lines_without_index == 0


def test_blocks_of_a_query_are_covered_up_to_its_last_batch() -> None:
    assert covered({}) == []
    ((low, high),) = covered({QUERY: 7})
    assert low == first_block(QUERY, 0) and high == first_block(QUERY, 8) - 1
    assert high < 1 << 63, "fits into a long"


def test_blocks_before_the_index_are_not_covered() -> None:
    ((low, high),) = covered({store.before(QUERY): 4, QUERY: 7})
    assert low == first_block(QUERY, 5) and high == first_block(QUERY, 8) - 1


def test_lines_older_than_a_new_index_are_found_and_said_to_be_not_indexed(
    spark: SparkSession, tables: LogTables
) -> None:
    old, new = web(40, 5), web(40, 6)
    store.write(parsed_lines(spark, old), tables, QUERY, 0)
    shutil.rmtree(tables.index)
    for _ in range(2):  # as after a crash behind the commits
        tables.create(spark)  # the job starts again
        store.write(parsed_lines(spark, new), tables, QUERY, 1)
    found = search(spark, tables, Ask(query.parse("req*"), limit=100))
    assert len(found.rows) == 80 and found.scan.lines_without_index == 40
    assert delta.snapshot(spark, tables.index).batches == {store.before(QUERY): 0, QUERY: 1}


def test_two_writers_and_a_compaction_at_once_lose_nothing(
    spark: SparkSession, add: Callable[[list[Line]], None], tables: LogTables
) -> None:
    for seed in range(3):
        add(web(10, seed))
    said: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        done = [
            pool.submit(store.write, parsed_lines(spark, web(10, 7)), tables, "one", 0),
            pool.submit(store.write, parsed_lines(spark, web(10, 8)), tables, "other", 0),
            pool.submit(delta.optimize, spark, tables.lines, said.append),
            pool.submit(delta.optimize, spark, tables.lines, said.append),
        ]
        for each in done:
            each.result()
    assert offsets(spark, tables) == Counter(dict.fromkeys(range(10), 5))
    delta.optimize(spark, tables.lines, said.append)
    assert offsets(spark, tables) == Counter(dict.fromkeys(range(10), 5))
    assert delta.snapshot(spark, tables.lines).files.count() == 1
    assert any("files compacted into 1" in line for line in said), said


def test_a_vacuum_leaves_what_is_live_and_older_versions_are_readable_until_then(
    spark: SparkSession, add: Callable[[list[Line]], None], tables: LogTables
) -> None:
    for seed in range(2):
        add(web(3, seed))
    (older,) = spark.sql(f"DESCRIBE HISTORY {delta.named(tables.lines)}").selectExpr("max(version)").collect()[0]
    tables.optimize(spark, print)
    before = offsets(spark, tables)

    def of_older() -> int:
        return int(spark.read.format("delta").option("versionAsOf", older).load(tables.lines).count())

    assert of_older() == 6
    assert delta.vacuum(spark, tables.lines, 1) == 0, "younger than an hour"
    assert of_older() == 6
    assert delta.vacuum(spark, tables.lines, 0) == 2
    assert_pages(spark, tables)
    assert offsets(spark, tables) == before
    add(web(3, 4))
    assert offsets(spark, tables) == before + Counter(range(3))


def test_the_command_compacts_into_the_same_pages(
    spark: SparkSession, add: Callable[[list[Line]], None], tables: LogTables
) -> None:
    for seed in range(2):
        add(web(3, seed))
    said: list[str] = []
    optimize_job.run(JobRun(spark, optimize_job.JOB.given(table=tables.folder), said.append))
    assert said[-1] == "4 files compacted"
    assert_pages(spark, tables)


def test_nothing_to_write_is_a_batch_too(spark: SparkSession, tables: LogTables) -> None:
    assert store.write(parsed_lines(spark, lines(1, 1)).where("false"), tables, QUERY, 0) == 0
    assert delta.snapshot(spark, tables.lines).batches == {QUERY: 0}
